import { expect, test } from 'vitest';
import { EarlyMessages } from '../../../../src/audio/ingest/early-messages.ts';
import { counters } from '../../../../src/counters.ts';

/** Messages that came at times, ms. */
const cameAt = (...timesMs: number[]) =>
  timesMs.map((atMs) => ({ message: Buffer.from(`${atMs}`), atMs }));

test('messages are given once, and without those of more than 30 s ago, which are counted', () => {
  const early = new EarlyMessages();
  const { late } = counters.dropped;
  early.add(cameAt(0, 10_000, 20_000), 35_000);
  expect(counters.dropped.late - late).toBe(1);
  early.add(cameAt(35_000), 38_000);
  expect(early.take(41_000)).toEqual(cameAt(20_000, 35_000));
  expect(early.take(41_000)).toEqual([]);
  early.drop();
  expect(counters.dropped.late - late).toBe(2);
});

test('more messages than are kept: the oldest are dropped, and counted', () => {
  const early = new EarlyMessages();
  const { late } = counters.dropped;
  const messages = cameAt(...Array.from({ length: 1030 }, (_, i) => i));
  early.add(messages, 2000);
  expect(counters.dropped.late - late).toBe(6);
  expect(early.take(2000)).toEqual(messages.slice(6));
});

test('a kept message keeps nothing else of what was read with it', () => {
  const early = new EarlyMessages();
  const read = Buffer.alloc(64 * 1024);
  early.add([{ message: read.subarray(10, 20), atMs: 0 }], 0);
  read.fill(1);
  const [kept] = early.take(0);
  expect(kept!.message).toEqual(Buffer.alloc(10));
  expect(kept!.message.buffer.byteLength).toBe(10);
});
