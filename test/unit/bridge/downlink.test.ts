import { expect, onTestFinished, test, vi } from 'vitest';
import type { LevelMeter } from '../../../src/audio/level-meter.ts';
import type { RoomMixer } from '../../../src/audio/mixing/room-mixer.ts';
import { Downlink } from '../../../src/bridge/downlink.ts';
import { RtpBudget } from '../../../src/bridge/rtp-budget.ts';
import type { RoomRouter } from '../../../src/media/room-router.ts';
import { writeRtpPacket } from '../../../src/rtp/packet.ts';

/** Opus of one CELT frame by its duration, ms: the TOC byte, and some bytes (RFC 6716 §3.1). */
const TOC = { 2.5: 0xe0, 10: 0xf0, 20: 0xf8 };
/** Three frames of 20 ms, and six, in one packet: the count follows. */
const LONG_TOC = 0xfb;
const opus = (ms: keyof typeof TOC) => Buffer.from([TOC[ms], 1, 2, 3, 4]);
const opusOf = (frames: number, bytes = 60) =>
  Buffer.concat([Buffer.from([LONG_TOC, frames]), Buffer.alloc(bytes, 1)]);

/** A way down that hears one producer, in virtual time, and what came of its packets. */
async function openDownlink(isRunning = false) {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const state = {
    decoded: 0,
    heard: 0,
    bytes: 0,
    warnings: 0,
    ends: 0,
    enteredSinceMs: [] as number[],
  };
  let onDatagram: (datagram: Buffer, levelExtensionId: number) => void = () => {};
  const consume = async (_id: string, _capabilities: unknown, deliver: typeof onDatagram) => {
    onDatagram = deliver;
    return { close: () => {} };
  };
  const mixer = {
    hasSpeaker: () => true,
    cutSpeaker: () => {},
    enterStream: (_peer: string, sinceMs: number) => state.enteredSinceMs.push(sinceMs),
    receive: (_peer: string, { payload }: { payload: Buffer }) => {
      state.heard += 1;
      state.bytes = payload.length;
    },
  } as unknown as RoomMixer;
  const meter = { levelOf: () => (state.decoded += 1), close: () => {} } as unknown as LevelMeter;
  const router = { plainLeg: { consume }, rtpCapabilities: {} } as unknown as RoomRouter;
  const downlink = new Downlink(
    () => router,
    mixer,
    async () => meter,
    () => true,
  );
  const budget = new RtpBudget(5000, performance.now());
  const events = {
    onWarned: () => (state.warnings += 1),
    onExceeded: () => (state.ends += 1),
  };
  await downlink.add('alice', 1, 'p', { budget, ...events, isRunning: () => isRunning });
  let sequenceNumber = 0;
  const send = (payload: Buffer) => {
    sequenceNumber += 1;
    const fields = { sequenceNumber, timestamp: 0, marker: false, audioLevel: 20, payload };
    onDatagram(writeRtpPacket(fields, { ssrc: 1, payloadType: 100, levelExtensionId: 1 }), 1);
  };
  /** Sends a packet every `everyMs`, in steps of 10 ms. */
  const sendFor = (ms: number, everyMs: number, payload: Buffer) => {
    for (let at = 0; at < ms; at += 10) {
      for (let sent = 0; sent < 10; sent += everyMs) send(payload);
      vi.advanceTimersByTime(10);
    }
  };
  return { state, downlink, send, sendFor };
}

test('packets of 10 ms in real time are all heard', async () => {
  const { state, sendFor } = await openDownlink();
  sendFor(60_000, 10, opus(10));
  expect(state).toMatchObject({ heard: 6000, ends: 0 });
});

test('packets of 2.5 ms in real time are more than may come, and end their peer', async () => {
  const { state, sendFor } = await openDownlink();
  sendFor(12_000, 2.5, opus(2.5));
  expect(state.ends).toBe(1);
  expect(state.heard).toBeLessThan((10 + 12 * 1.25) / 0.008);
});

test('three packets in 20 ms are heard, as they come of a WebSocket peer of another node', async () => {
  const { state, send } = await openDownlink();
  for (let tick = 0; tick < 3000; tick += 1) {
    for (let packet = 0; packet < 3; packet += 1) send(opus(2.5));
    vi.advanceTimersByTime(20);
  }
  expect(state).toMatchObject({ heard: 9000, ends: 0 });
});

test('what comes at once after an outage is heard, and so is what comes after it', async () => {
  const { state, send, sendFor } = await openDownlink();
  sendFor(1000, 10, opus(20).subarray(0, 3));
  for (let packet = 0; packet < 400; packet += 1) send(opus(20));
  const before = state.heard;
  vi.advanceTimersByTime(20);
  sendFor(10_000, 10, opus(2.5));
  expect(state).toMatchObject({ heard: before + 1000, ends: 0 });
  expect(before).toBe(500);
});

test('at twice real time without end a peer is told after 6 s, and ended within 10 s', async () => {
  const { state, sendFor } = await openDownlink();
  sendFor(6000, 10, opus(20));
  expect(state).toMatchObject({ heard: 600, warnings: 0, ends: 0 });
  sendFor(2000, 10, opus(20));
  expect(state).toMatchObject({ heard: 800, warnings: 1, ends: 0 });
  sendFor(2000, 10, opus(20));
  expect(state).toMatchObject({ warnings: 1, ends: 1 });
});

test('at twice real time, in seconds that begin anywhere and with longer packets, a peer is ended within 10 s', async () => {
  for (const beginsAtMs of [0, 310, 500, 690, 930]) {
    const { state, send, sendFor } = await openDownlink();
    sendFor(beginsAtMs + 5000, 10, opus(10));
    expect(state).toMatchObject({ warnings: 0, ends: 0 });
    for (let sentMs = 0; sentMs < 10_000 && state.ends === 0; sentMs += 30) {
      send(opusOf(3));
      vi.advanceTimersByTime(30);
    }
    expect(state.ends).toBe(1);
    vi.useRealTimers();
  }
});

test('what a stall has held back for 8 s ends nobody, at once or at twice real time, and neither does a fast clock', async () => {
  const stalled = await openDownlink();
  for (let time = 0; time < 3; time += 1) {
    for (let packet = 0; packet < 400; packet += 1) stalled.send(opus(20));
    stalled.sendFor(35_000, 10, opus(10));
    stalled.sendFor(8000, 10, opus(20));
    stalled.sendFor(35_000, 10, opus(10));
  }
  // It is told that it is fast, because it might go on.
  expect(stalled.state).toMatchObject({ warnings: 3, ends: 0 });
  vi.useRealTimers();
  const fast = await openDownlink();
  for (let sent = 0; sent < 3600; sent += 1) {
    fast.send(opus(20));
    vi.advanceTimersByTime(20 / 1.2);
  }
  expect(fast.state).toMatchObject({ heard: 3600, warnings: 0, ends: 0 });
});

test('sound beyond the budget is not decoded, and ends its peer after 5 s, once', async () => {
  const { state, sendFor, downlink } = await openDownlink();
  // 12 s of sound each second.
  sendFor(5000, 10, opusOf(6));
  expect(state.ends).toBe(0);
  sendFor(3000, 10, opusOf(6));
  expect(state.ends).toBe(1);
  expect(state.decoded).toBe(state.heard);
  expect(state.heard * 0.12).toBeLessThan(10 + 8 * 1.25);
  expect(downlink.hears('alice')).toBe(true);
});

test('packets beyond the budget are not decoded either', async () => {
  const { state, sendFor } = await openDownlink();
  sendFor(9000, 0.5, opus(2.5));
  expect(state.ends).toBe(1);
  expect(state.heard * 0.0025).toBeLessThan(10 + 9 * 1.25);
});

test('bytes beyond what encoders make of the sound are dropped, and end their peer after 5 s', async () => {
  const { state, sendFor } = await openDownlink();
  const longest = Buffer.alloc(1276, 1);
  longest[0] = TOC[10];
  sendFor(25_000, 10, longest);
  expect(state.heard).toBeLessThan(2500);
  sendFor(5000, 10, longest);
  expect(state.ends).toBe(1);
  expect(state.heard * longest.length).toBeLessThan(75_000 * (10 + 30 * 1.25));
});

test('the highest bit rate of Opus is heard', async () => {
  const { state, sendFor } = await openDownlink();
  const kbps510 = Buffer.alloc(638, 1);
  kbps510[0] = TOC[10];
  sendFor(30_000, 10, kbps510);
  expect(state).toMatchObject({ heard: 3000, ends: 0 });
});

test('padding beyond what encoders make is removed', async () => {
  const { state, send } = await openDownlink();
  const padded = Buffer.concat([
    Buffer.from([LONG_TOC, 0x41, ...Array.from({ length: 8 }, () => 255), 0]),
    Buffer.alloc(50, 1),
    Buffer.alloc(8 * 254),
  ]);
  send(padded);
  expect(state).toMatchObject({ heard: 1, bytes: 52 });
});

test('the stream of a producer that was there before is entered at its first packet, as of when its packets come', async () => {
  const { state, send } = await openDownlink(true);
  const sinceMs = performance.now();
  vi.advanceTimersByTime(70);
  send(opus(20));
  send(opus(20));
  expect(state).toMatchObject({ heard: 2, enteredSinceMs: [sinceMs] });
});

test('the stream of a new producer begins with its first packet', async () => {
  const { state, send } = await openDownlink();
  send(opus(20));
  expect(state).toMatchObject({ heard: 1, enteredSinceMs: [] });
});
