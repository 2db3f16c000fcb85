import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import type { AudioFormat } from '../../../src/audio/format.ts';
import type { Room } from '../../../src/rooms/room.ts';
import type { ClientAudio } from '../../../src/session/client-audio.ts';
import { Presence } from '../../../src/session/presence.ts';
import { presencePartsOf } from '../../support/presence-parts.ts';

/** A WebSocket client in a room whose mixer notes updates of listeners. */
async function openClient(format: AudioFormat) {
  const nothing = () => {};
  const updates: unknown[][] = [];
  const listeners: unknown[] = [];
  const room = {
    media: {},
    mixer: {
      addListener: (listener: unknown) => listeners.push(listener),
      removeListener: nothing,
      updateListener: (...update: unknown[]) => updates.push(update),
    },
    relay: { add: nothing, remove: nothing },
    clock: { add: nothing, remove: nothing },
    route: { isOpen: false },
    uplinkTimings: { ...DEFAULT_TIMINGS.budgets, ...DEFAULT_TIMINGS.mediaWorkers },
    enter: nothing,
    others: () => [],
    speakerOf: () => 1,
    tellSpeakersTo: nothing,
    whenAllHeard: async () => {},
  } as unknown as Room;
  const client = { name: 'alice', account: { id: 'x' }, log: { info: nothing }, notify: nothing };
  const audio = {
    subscription: { format, delivery: 'mix', volume: {}, isRelayed: false },
    isMuted: false,
    attach: nothing,
  };
  const presence = new Presence(
    client as never,
    audio as unknown as ClientAudio,
    presencePartsOf(room),
  );
  await presence.join('a', { type: 'join', room: 'a' });
  return { presence, updates, listeners };
}

const NO_EVENTS = { peers: false, speaking: false };

test('sound that a client missed: the room takes it for a listener that lacks it, once each time', async () => {
  const { presence, updates, listeners } = await openClient({ codec: 'opus' });
  presence.tellMissed({ ...NO_EVENTS, sound: true });
  presence.tellMissed({ ...NO_EVENTS, sound: true });
  const [first, second] = updates;
  expect(updates).toHaveLength(2);
  expect(first![0]).toBe(listeners[0]);
  expect(first![1]).not.toBe(first![0]);
  expect(second![0]).toBe(first![1]);
  expect(updates.map(([, , hasMissed]) => hasMissed)).toEqual([true, true]);
});

test('no sound missed, or samples, which need none of those before: nothing changes', async () => {
  const opus = await openClient({ codec: 'opus' });
  opus.presence.tellMissed({ peers: false, speaking: true, sound: false });
  const pcm = await openClient({ codec: 'pcm_s16le', rateHz: 48_000, channels: 1 });
  pcm.presence.tellMissed({ ...NO_EVENTS, sound: true });
  expect([opus.updates, pcm.updates]).toEqual([[], []]);
});
