import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import { parseDeclaredFormat } from '../../../src/audio/format.ts';
import { AT_ONCE } from '../../../src/audio/ingest/held-audio.ts';
import type { ServerMessage } from '../../../src/protocol/messages.ts';
import type { ClientConnection } from '../../../src/rooms/peer.ts';
import type { RoomLease } from '../../../src/rooms/registry.ts';
import { WebSocketPeer } from '../../../src/rooms/websocket-peer.ts';
import { ClientAudio } from '../../../src/session/client-audio.ts';
import { HandClock } from '../../support/simulated-room.ts';
import { encodeOpus, pcmTone, tone } from '../../support/sound.ts';

/** Figures that tell a client of sound that came too fast, wherever it was dropped. */

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 0 });
});
beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

/** A client in a room, and the messages that it is sent. */
function open(declared: string) {
  const clock = new HandClock();
  const room = {
    mixer: { receive: () => {} },
    route: { isOpen: false },
    clock,
    uplinkTimings: { ...DEFAULT_TIMINGS.budgets, ...DEFAULT_TIMINGS.mediaWorkers },
  };
  const told: ServerMessage[] = [];
  const faults: unknown[] = [];
  const session = {
    name: 'ann',
    isJoining: true,
    notify: (message: ServerMessage) => void told.push(message),
    sendRelayed: () => {},
    streamOver: () => {},
    settingsChanged: async () => {},
    fail: (fault: unknown) => faults.push(fault),
  };
  const preferences = {
    in: parseDeclaredFormat(declared),
    pinned: undefined,
    out: undefined,
    delivery: 'mix' as const,
    unknownOut: undefined,
  };
  const audio = new ClientAudio(preferences, undefined, codecs, AT_ONCE, session);
  const openPeer = () =>
    new WebSocketPeer(
      { room } as unknown as RoomLease,
      session as unknown as ClientConnection,
      audio.subscription,
      false,
    );
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 20) {
      vi.advanceTimersByTime(20);
      clock.tick(performance.now());
      await turn();
    }
  };
  return { audio, faults, told, openPeer, pass };
}

test.each([
  ['opus', async () => encodeOpus(tone(440, 0.5, 30_000))],
  ['pcm_s16le;rate=48000;channels=1', async () => pcmTone(440, 0.5, 30_000)],
])(
  '%s: a client that sends 30 s at once is told what was dropped, also in its next room',
  async (declared, make) => {
    const messages = await make();
    const { audio, faults, told, openPeer, pass } = open(declared);
    audio.attach(openPeer());
    await turn();
    for (const message of messages) {
      vi.advanceTimersByTime(0.01);
      audio.input.receive(message, performance.now());
    }
    await pass(8000);
    const { dropped_ms: droppedMs } = audio.describeStats();
    expect(droppedMs).toBeGreaterThan(26_000);
    expect(droppedMs).toBeLessThan(29_000);
    const flows = told.filter((message) => message.type === 'flow');
    expect(flows.map(({ state }) => state)).toEqual(['xoff', 'xon']);
    expect(flows[1]!.dropped_ms).toBeGreaterThan(26_000);
    audio.attach(openPeer());
    expect(audio.describeStats().dropped_ms).toBe(droppedMs);
    expect(faults).toEqual([]);
    audio.close();
  },
);
