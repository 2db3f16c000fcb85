import { randomBytes } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import { parseDeclaredFormat, type SampleFormat } from '../../../src/audio/format.ts';
import { AT_ONCE } from '../../../src/audio/ingest/held-audio.ts';
import { counters } from '../../../src/counters.ts';
import type { ClientConnection } from '../../../src/rooms/peer.ts';
import type { RoomLease } from '../../../src/rooms/registry.ts';
import { WebSocketPeer } from '../../../src/rooms/websocket-peer.ts';
import type { MediaPacket } from '../../../src/rtp/packet.ts';
import { ClientAudio } from '../../../src/session/client-audio.ts';
import { readFixture } from '../../support/fixtures.ts';
import { HandClock } from '../../support/simulated-room.ts';
import { opusTone, pcmTone, sampleTone } from '../../support/sound.ts';

/** Sound that a client sends around a mute and an unmute, and the part of it that is not to be heard. */

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});
beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

/** A client in a room, whose packets and relayed messages are kept. */
function open(declared: string) {
  const clock = new HandClock();
  /** `isMuted` of each packet that the room was given. */
  const muted: boolean[] = [];
  /** Audio level of each packet that is not muted, -dBov. */
  const heardLevels: number[] = [];
  const relayed: Buffer[] = [];
  const room = {
    mixer: {
      receive: (_peer: string, packet: MediaPacket, _nowMs: number, isMuted: boolean) => {
        muted.push(isMuted);
        if (!isMuted) heardLevels.push(packet.audioLevel ?? 0);
      },
    },
    route: { isOpen: false },
    clock,
    uplinkTimings: { ...DEFAULT_TIMINGS.budgets, ...DEFAULT_TIMINGS.mediaWorkers },
    mutedChanged: () => {},
    relayMessage: (_peer: string, message: Buffer) => relayed.push(message),
  };
  const faults: unknown[] = [];
  const session = {
    name: 'ann',
    isJoining: true,
    notify: () => {},
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
  const peer = new WebSocketPeer(
    { room } as unknown as RoomLease,
    session as unknown as ClientConnection,
    audio.subscription,
    audio.isMuted,
  );
  audio.attach(peer);
  // No two messages come at the same moment.
  const configure = (mute: boolean) => {
    vi.advanceTimersByTime(0.01);
    audio.configure({ type: 'configure', mute });
  };
  const receive = (...messages: Buffer[]) => {
    for (const message of messages) {
      vi.advanceTimersByTime(0.01);
      audio.input.receive(message, performance.now());
    }
  };
  /** Lets the time pass that the messages before last. */
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 20) {
      vi.advanceTimersByTime(20);
      clock.tick(performance.now());
      await turn();
    }
  };
  return { audio, faults, muted, heardLevels, relayed, configure, receive, pass };
}

test('sound that was sent while its client was muted is not heard after the unmute, if its format was unknown until then', async () => {
  const { audio, faults, muted, configure, receive, pass } = open('auto');
  const second = Buffer.concat(pcmTone(440, 0.5, 1000));
  const send = async (seconds: number) => {
    for (let sent = 0; sent < seconds; sent += 1) {
      await pass(1000);
      receive(second);
    }
  };
  configure(true);
  await send(2);
  expect(audio.input.format).toBeUndefined();
  configure(false);
  await send(3);
  await pass(2000);
  expect(audio.input.format).toBeDefined();
  expect(muted.filter((isMuted) => !isMuted).length).toBeLessThanOrEqual(150);
  expect(muted.filter((isMuted) => !isMuted).length).toBeGreaterThanOrEqual(145);
  expect(faults).toEqual([]);
  audio.close();
});

test('messages of an unknown format that were sent while their client was muted are not relayed after the unmute', async () => {
  const { audio, faults, relayed, configure, receive, pass } = open('auto');
  const [during, after] = [0, 1].map(() => Array.from({ length: 50 }, () => randomBytes(97)));
  const send = async (messages: Buffer[]) => {
    for (const message of messages) {
      await pass(20);
      receive(message);
    }
  };
  configure(true);
  await send(during!.slice(0, 5));
  expect(audio.input.format).toBeUndefined();
  configure(false);
  await send(after!);
  await pass(1000);
  expect(audio.input.format).toEqual({ codec: 'opaque' });
  expect(relayed.map((message) => after!.findIndex((sent) => sent.equals(message)))).toEqual([
    ...after!.keys(),
  ]);
  expect(faults).toEqual([]);
  audio.close();
});

test('what was said before a mute is heard, if its format is known only after it', async () => {
  const { audio, faults, muted, configure, receive, pass } = open('auto');
  const messages = sampleTone(
    { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 },
    440,
    0.5,
    1000,
    20,
  );
  const send = async (some: Buffer[]) => {
    for (const message of some) {
      await pass(20);
      receive(message);
    }
  };
  await send(messages.slice(0, 2));
  expect(audio.input.format).toBeUndefined();
  configure(true);
  await send(messages.slice(2));
  await pass(1000);
  expect(audio.input.format).toBeDefined();
  // Some of what is not heard is left out, so that the delay of the first words ends.
  expect(muted.slice(0, 2)).toEqual([false, false]);
  expect(muted.slice(2)).toEqual(muted.slice(2).map(() => true));
  expect(muted.length).toBeGreaterThan(40);
  expect(faults).toEqual([]);
  audio.close();
});

test('words of a client of unknown format that mutes itself between them are heard, and nothing else', async () => {
  const { audio, faults, muted, heardLevels, configure, receive, pass } = open('auto');
  const format: SampleFormat = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 };
  // No piece ends with a packet.
  const pieceMs = 95;
  const pieceOf = (amplitude: number) =>
    Buffer.concat(sampleTone(format, 440, amplitude, pieceMs, pieceMs));
  const [word, aside] = [pieceOf(0.01), pieceOf(0.5)];
  const send = async (piece: Buffer) => {
    await pass(pieceMs);
    receive(piece);
  };
  await send(word);
  configure(true);
  await send(aside);
  expect(audio.input.format).toBeUndefined();
  for (let i = 0; i < 20; i += 1) {
    configure(i % 2 === 1);
    await send(i % 2 === 1 ? aside : word);
  }
  await pass(2000);
  expect(audio.input.format).toBeDefined();
  expect(Math.min(...heardLevels)).toBeGreaterThan(35);
  // Each word has four whole packets. Some of the others are left out to end their delay.
  expect(heardLevels).toHaveLength(11 * 4);
  expect(muted.filter(Boolean).length).toBeGreaterThan(8 * 4);
  expect(faults).toEqual([]);
  audio.close();
});

test('compressed sound that is still being decoded when its client mutes itself is heard', async () => {
  const { audio, faults, muted, configure, receive, pass } = open('mp3');
  await turn();
  const said = readFixture('speech.mp3').subarray(0, 16_000);
  receive(said);
  configure(true);
  expect(muted).toEqual([]);
  await vi.waitFor(
    async () => {
      await pass(100);
      expect(muted.length).toBeGreaterThan(40);
    },
    { timeout: 10_000 },
  );
  expect(muted.filter(Boolean)).toEqual([]);
  expect(faults).toEqual([]);
  audio.close();
});

test('messages of an unknown format that were sent before a mute are relayed, and those behind it are not', async () => {
  const { audio, faults, relayed, configure, receive, pass } = open('auto');
  const messages = Array.from({ length: 50 }, () => randomBytes(97));
  const send = async (some: Buffer[]) => {
    for (const message of some) {
      await pass(20);
      receive(message);
    }
  };
  await send(messages.slice(0, 5));
  expect(audio.input.format).toBeUndefined();
  configure(true);
  await send(messages.slice(5));
  expect(audio.input.format).toEqual({ codec: 'opaque' });
  expect(relayed).toEqual(messages.slice(0, 5));
  expect(faults).toEqual([]);
  audio.close();
});

test('messages of an unknown format from before a pause are not relayed while their client is muted', async () => {
  const messages = Array.from({ length: 50 }, () => randomBytes(97));
  const detect = async ({ receive, pass }: ReturnType<typeof open>) => {
    for (const message of messages) {
      await pass(20);
      receive(message);
    }
  };
  const declare =
    (mute?: boolean) =>
    ({ audio }: ReturnType<typeof open>) => {
      audio.configure({ type: 'configure', audio: 'opaque', ...(mute !== undefined && { mute }) });
    };
  for (const [isMuted, go, isRelayed] of [
    [true, detect, false],
    [false, detect, true],
    [true, declare(), false],
    [false, declare(), true],
    [false, declare(true), false],
    [true, declare(false), true],
  ] as const) {
    const client = open('auto');
    const { late } = counters.dropped;
    const early = randomBytes(97);
    client.receive(early);
    await client.pass(1000);
    if (isMuted) client.configure(true);
    await client.pass(2000);
    await go(client);
    expect(client.relayed.some((message) => message.equals(early))).toBe(isRelayed);
    expect(counters.dropped.late - late).toBe(isRelayed ? 0 : 1);
    expect(client.faults).toEqual([]);
    client.audio.close();
  }
});

test('sound among mutes and unmutes of the same read is muted in the order in which it was sent', async () => {
  const { audio, faults, muted, configure, receive, pass } = open('opus');
  await turn();
  const packets = await opusTone(440, 0.5, 1000);
  const mutes = Array.from({ length: 10 }, (_, i) => i % 2 === 0);
  for (const i of mutes.keys()) {
    audio.input.mark();
    receive(...packets.slice(i * 5, i * 5 + 5));
  }
  await pass(20);
  expect(muted).toEqual([]);
  for (const mute of mutes) {
    configure(mute);
    audio.input.passMark();
  }
  await pass(1000);
  expect(muted).toEqual(mutes.flatMap((mute) => Array.from({ length: 5 }, () => mute)));
  expect(faults).toEqual([]);
  audio.close();
});

test('the last samples before an unmute, which fill no packet, are not heard after it', async () => {
  const { audio, faults, heardLevels, configure, receive, pass } = open(
    'pcm_s16le;rate=48000;channels=1',
  );
  await turn();
  const format: SampleFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
  const messageMs = (4096 * 1000) / 48_000;
  const send = async (messages: Buffer[]) => {
    for (const message of messages) {
      receive(message);
      await pass(messageMs);
    }
  };
  const loud = sampleTone(format, 440, 0.5, 3 * messageMs, messageMs);
  configure(true);
  await send(loud);
  configure(false);
  await send(loud.map(({ length }) => Buffer.alloc(length)));
  await pass(500);
  expect(heardLevels.length).toBeGreaterThan(8);
  expect(Math.min(...heardLevels)).toBe(127);
  expect(faults).toEqual([]);
  audio.close();
});
