import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { loadCodecs } from '../../../src/audio/codecs.ts';
import { opusPacketSamples } from '../../../src/audio/opus-packet.ts';
import { Uplink } from '../../../src/bridge/uplink.ts';
import { counters } from '../../../src/counters.ts';
import { SAMPLES_PER_MS } from '../../../src/rtp/clock-rate.ts';
import type { MediaPacket } from '../../../src/rtp/packet.ts';
import { HandClock, SimulatedRoom } from '../../support/simulated-room.ts';
import { decodeOpus, encodeOpus, tone } from '../../support/sound.ts';

const SHORT_MS = 2.5;
const FRAME_MS = 20;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** An uplink to a mixer that notes what it is given, and when; its clock ticks each 20 ms. */
function openUplink(receive = (_packet: MediaPacket, _isMuted: boolean) => {}) {
  const clock = new HandClock();
  const startMs = performance.now();
  const mixer = {
    openLateBeginning: () => undefined,
    receive: (_peer: string, packet: MediaPacket, _nowMs: number, isMuted = false) =>
      receive(packet, isMuted),
  };
  const uplink = new Uplink(
    () => {
      throw new Error('nobody listens behind the router');
    },
    { isOpen: false },
    { mixer, peer: 'ann' },
    clock,
    { ...DEFAULT_TIMINGS.budgets, ...DEFAULT_TIMINGS.mediaWorkers },
    {
      onProducer: async () => {},
      onFlow: () => {},
      onFault: (fault) => {
        throw fault;
      },
    },
  );
  let nextTickMs = startMs + FRAME_MS / 3;
  const passTo = (ms: number) => {
    for (; nextTickMs <= startMs + ms; nextTickMs += FRAME_MS) {
      vi.advanceTimersByTime(nextTickMs - performance.now());
      clock.tick(performance.now());
    }
    vi.advanceTimersByTime(startMs + ms - performance.now());
  };
  const send = (packet: Buffer, audioLevel = 20) =>
    uplink.send(packet, opusPacketSamples(packet)!, audioLevel, performance.now());
  return { uplink, clock, send, passTo };
}

const shortTone = () => encodeOpus(tone(440, 0.25, 1000), SHORT_MS);

test('of packets of 2.5 ms each of 300 listeners is sent one in 10 ms, of the same sound', async () => {
  const packets = await shortTone();
  const room = new SimulatedRoom(await loadCodecs({ bitrateBps: 48_000, complexity: 5 }), ['ann']);
  const heard = Array.from({ length: 300 }, (_, i) => room.listen(`${i}`, { codec: 'opus' }));
  const { send, passTo } = openUplink((packet, isMuted) => {
    room.mixer.receive('ann', packet, performance.now(), isMuted);
  });
  for (const [i, packet] of packets.entries()) {
    passTo(i * SHORT_MS);
    send(packet);
  }
  passTo(packets.length * SHORT_MS + FRAME_MS);
  const frames = heard.map((each) => each.frames);
  expect(frames.flat().length).toBeLessThanOrEqual(300 * 101);
  expect(await decodeOpus(frames[0]!)).toEqual(await decodeOpus(packets));
});

test('a lone packet is sent within 20 ms, and the clock stops', async () => {
  const [packet] = await shortTone();
  const sentMs: number[] = [];
  const { send, passTo, clock } = openUplink(() => sentMs.push(performance.now()));
  const startMs = performance.now();
  for (let i = 0; i < 20; i += 1) {
    passTo(i * 203);
    send(packet!);
  }
  passTo(20 * 203);
  const delaysMs = sentMs.map((ms, i) => ms - startMs - i * 203);
  expect(delaysMs).toHaveLength(20);
  expect(Math.max(...delaysMs)).toBeLessThanOrEqual(FRAME_MS);
  expect(clock.isRunning).toBe(false);
});

test('the level is that of the loudest packet, and packets of 10 ms are sent as they are', async () => {
  const packets = await shortTone();
  const [long] = await encodeOpus(tone(440, 0.25, 20), 10);
  const heard: MediaPacket[] = [];
  const { send } = openUplink((packet) => heard.push(packet));
  for (const level of [30, 20, 40, 35]) send(packets[0]!, level);
  send(long!, 50);
  expect(heard.map(({ audioLevel }) => audioLevel)).toEqual([20, 50]);
  expect(heard[1]!.payload).toBe(long);
});

test('a packet of 20 ms stays in its place when short packets before it are dropped', async () => {
  const [short] = await shortTone();
  const [long] = await encodeOpus(tone(440, 0.25, 20), FRAME_MS);
  const heard: { atMs: number; timestamp: number }[] = [];
  const { send, passTo } = openUplink(({ payload, timestamp }) => {
    if (payload === long) heard.push({ atMs: performance.now(), timestamp });
  });
  const dropped = counters.dropped.too_fast;
  for (let i = 0; i < 800; i += 1) {
    passTo(i * (SHORT_MS + FRAME_MS));
    send(short!);
    passTo(i * (SHORT_MS + FRAME_MS) + SHORT_MS);
    send(long!);
  }
  expect(counters.dropped.too_fast).toBeGreaterThan(dropped);
  expect(heard).toHaveLength(800);
  const [first] = heard;
  const misplacedMs = heard.map(
    ({ atMs, timestamp }) =>
      ((timestamp - first!.timestamp) >>> 0) / SAMPLES_PER_MS - (atMs - first!.atMs),
  );
  expect(Math.max(...misplacedMs.map(Math.abs))).toBeLessThan(1);
});

test('no packet contains sound from both sides of a mute', async () => {
  const packets = await shortTone();
  const heard: { samples: number; isMuted: boolean }[] = [];
  const { send, uplink } = openUplink(({ payload }, isMuted) =>
    heard.push({ samples: opusPacketSamples(payload)!, isMuted }),
  );
  for (const [i, packet] of packets.slice(0, 8).entries()) {
    if (i === 2) uplink.setMuted(true);
    send(packet);
  }
  expect(heard).toEqual([
    { samples: 240, isMuted: false },
    { samples: 480, isMuted: true },
  ]);
});

test('a change of configuration ends a packet; a sender of nothing but changes is thinned out', async () => {
  const packets = await encodeOpus(tone(440, 0.25, 4000), SHORT_MS);
  // As of one channel and of two in turn.
  for (const [i, packet] of packets.entries()) if (i % 2 === 1) packet[0]! |= 4;
  const heard: MediaPacket[] = [];
  const droppedBefore = counters.dropped.too_fast;
  const { send, passTo } = openUplink((packet) => heard.push(packet));
  for (const [i, packet] of packets.entries()) {
    passTo(i * SHORT_MS);
    send(packet);
  }
  passTo(4000 + FRAME_MS);
  expect(heard.length).toBeGreaterThan(100);
  // 100 at once, 10 a second, and one a tick.
  expect(heard.length).toBeLessThanOrEqual(100 + 40 + 4 * 51);
  expect(heard.length + counters.dropped.too_fast - droppedBefore).toBe(packets.length);
  // Sound that is left out leaves a gap.
  const [first, last] = [heard[0]!, heard.at(-1)!];
  expect(((last.timestamp - first.timestamp) >>> 0) / 48).toBeGreaterThan(3900);
});
