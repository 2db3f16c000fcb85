import { describe, expect, test } from 'vitest';
import { ContinuousStream, type LevelledPacket } from '../../../src/rtp/continuous-stream.ts';

const FRAME = Buffer.from([0x78, 1, 2, 3]);
const SILENT_BYTES = 3;

type Sent = LevelledPacket & { atMs: number };

/** A stream in virtual time: `speak` says at each tick whether a packet of 20 ms comes, `lateMs` how late. */
function run(
  forMs: number,
  speak: (atMs: number) => boolean,
  { isSparse = false, lateMs = (_atMs: number): number => 0, fromMs = 1000 } = {},
): Sent[] {
  const sent: Sent[] = [];
  let nowMs = fromMs;
  const stream = new ContinuousStream(
    (packet) => sent.push({ ...packet, atMs: nowMs }),
    isSparse,
    nowMs,
  );
  const due: { atMs: number; act: () => void }[] = [];
  for (let at = 0; at < forMs; at += 20) {
    due.push({ atMs: fromMs + at, act: () => stream.tick(nowMs) });
    if (!speak(at)) continue;
    due.push({ atMs: fromMs + at + 1 + lateMs(at), act: () => stream.push(FRAME, 960, nowMs) });
  }
  for (const { atMs, act } of due.toSorted((a, b) => a.atMs - b.atMs)) {
    nowMs = atMs;
    act();
  }
  return sent;
}

const isSilent = ({ payload }: Sent) => payload.length === SILENT_BYTES;
const stepsOf = (sent: Sent[], read: (packet: Sent) => number, modulus: number) =>
  sent.slice(1).map((packet, i) => (read(packet) - read(sent[i]!) + modulus) % modulus);
const sequenceSteps = (sent: Sent[]) => stepsOf(sent, (packet) => packet.sequenceNumber, 0x1_0000);
const timestampSteps = (sent: Sent[]) => stepsOf(sent, (packet) => packet.timestamp, 2 ** 32);
const gapsMs = (sent: Sent[]) => sent.slice(1).map((packet, i) => packet.atMs - sent[i]!.atMs);

/** Drift of the timestamps from the time of day, ms. */
const driftMs = (sent: Sent[]) =>
  timestampSteps(sent).reduce((sum, step) => sum + step, 0) / 48 -
  (sent.at(-1)!.atMs - sent[0]!.atMs);

describe('continuous stream', () => {
  test('packets without a pause go out as they come', () => {
    const sent = run(2000, () => true);
    expect(sent).toHaveLength(100);
    expect(sent.some(isSilent)).toBe(false);
    expect(new Set(timestampSteps(sent))).toEqual(new Set([960]));
  });

  test('while nothing is heard silence goes out, without a gap', () => {
    const sent = run(5000, () => false);
    expect(sent.every(isSilent)).toBe(true);
    expect(Math.max(...gapsMs(sent))).toBe(20);
    expect(new Set(timestampSteps(sent))).toEqual(new Set([960]));
  });

  test('a client that asked for it gets a packet each 400 ms at least', () => {
    const sent = run(5000, () => false, { isSparse: true });
    expect(Math.max(...gapsMs(sent))).toBeLessThanOrEqual(400);
    expect(sent.length).toBeLessThan(20);
    expect(Math.abs(driftMs(sent))).toBeLessThanOrEqual(20);
  });

  test.each([true, false])(
    'timestamps go on with time through words and pauses (usedtx %s)',
    (isSparse) => {
      const sent = run(60_000, (atMs) => Math.floor(atMs / 700) % 2 === 0, { isSparse });
      expect(new Set(sequenceSteps(sent))).toEqual(new Set([1]));
      for (const step of timestampSteps(sent)) expect(step % 960).toBe(0);
      expect(Math.max(...gapsMs(sent))).toBeLessThanOrEqual(400);
      expect(Math.abs(driftMs(sent))).toBeLessThanOrEqual(40);
    },
  );

  test('packets that a network holds up are not taken for a pause', () => {
    const sent = run(4000, () => true, { lateMs: (atMs) => (atMs * 7) % 80 });
    expect(sent.some(isSilent)).toBe(false);
    expect(new Set(timestampSteps(sent))).toEqual(new Set([960]));
  });

  test('each first packet after a gap has the marker, and no other', () => {
    const sent = run(3000, (atMs) => Math.floor(atMs / 500) % 2 === 0, { isSparse: true });
    const steps = timestampSteps(sent);
    expect(sent[0]?.marker).toBe(true);
    expect(sent.slice(1).map(({ marker }) => marker)).toEqual(steps.map((step) => step > 960));
  });

  test.each([90, 150, 300])(
    'late words at the end of each stretch do not add up to a delay (%i ms)',
    (lateMs) => {
      const isLast = (atMs: number) => atMs % 1000 === 480;
      const sent = run(120_000, (atMs) => atMs % 1000 < 500, {
        lateMs: (atMs) => (isLast(atMs) ? lateMs : 0),
      });
      expect(Math.abs(driftMs(sent))).toBeLessThanOrEqual(120);
    },
  );

  test.each([
    [150, 0],
    [300, 0],
    [300, 2000],
  ])(
    'stalls of %i ms, %i ms after the beginning of each stretch, do not add up to a delay',
    (stallMs, afterMs) => {
      const lateMs = (atMs: number) => {
        const sinceMs = (atMs % 5000) - afterMs;
        return sinceMs >= 0 && sinceMs < stallMs ? stallMs - sinceMs : 0;
      };
      const sent = run(120_000, (atMs) => atMs % 5000 < 4000, { lateMs });
      expect(Math.abs(driftMs(sent))).toBeLessThanOrEqual(40);
      const silentGapsMs = gapsMs(sent).filter(
        (_, i) => isSilent(sent[i]!) && isSilent(sent[i + 1]!),
      );
      expect(Math.max(...silentGapsMs)).toBeLessThanOrEqual(40);
    },
  );
});
