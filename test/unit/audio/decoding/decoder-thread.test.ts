import { expect, test, vi } from 'vitest';
import { DecoderThread } from '../../../../src/audio/decoding/decoder-thread.ts';

const HANGING = new URL('../../../support/hanging-decoder.ts', import.meta.url);
const FRAMES = [new Uint8Array(10)];

test('a stream that makes the thread hang is given up, and the others go on', async () => {
  const thread = new DecoderThread(HANGING, 50);
  const [hostile, first, second] = [thread.open('mp3'), thread.open('flac'), thread.open('flac')];
  expect(await first.decode(FRAMES)).toMatchObject({ rateHz: 8000 });
  const answers = await Promise.allSettled([
    hostile.decode(FRAMES),
    first.decode(FRAMES),
    second.decode(FRAMES),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
  await expect(hostile.decode(FRAMES)).rejects.toThrow('closed');
  for (const decoder of [hostile, first, second]) decoder.close();
  expect(thread.size).toBe(0);
});

test('a stream that makes the thread crash is given up, and the others go on', async () => {
  const thread = new DecoderThread(HANGING);
  const [hostile, other] = [thread.open('flac'), thread.open('flac')];
  const answers = await Promise.allSettled([hostile.decode([]), other.decode(FRAMES)]);
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  expect(await other.decode(FRAMES)).toMatchObject({ rateHz: 8000 });
  other.close();
});

test('the head of a stream is given once to each thread that decodes it', async () => {
  const thread = new DecoderThread(HANGING);
  const [vorbis, hostile] = [thread.open('vorbis'), thread.open('flac')];
  vorbis.begin(new Uint8Array(30));
  expect(await vorbis.decode(FRAMES)).toMatchObject({ rateHz: 8001 });
  expect(await vorbis.decode(FRAMES)).toMatchObject({ rateHz: 8001 });
  await expect(hostile.decode([])).rejects.toThrow('thread');
  expect(await vorbis.decode(FRAMES)).toMatchObject({ rateHz: 8001 });
  vorbis.begin(new Uint8Array(30));
  expect(await vorbis.decode(FRAMES)).toMatchObject({ rateHz: 8002 });
  vorbis.close();
});

test('a frame that is a part of much memory is posted without the rest of it', async () => {
  const thread = new DecoderThread(HANGING);
  const stream = thread.open('aac');
  const { samples } = await stream.decode([new Uint8Array(65_536).subarray(1000, 1010)]);
  expect(samples).toHaveLength(10);
  stream.close();
});

test('accounts take turns: one with a single stream does not wait for all of another', async () => {
  const thread = new DecoderThread(HANGING);
  const many = thread.ofAccount(1);
  const streams = Array.from({ length: 20 }, () => many.open('flac'));
  const single = thread.ofAccount(2).open('flac');
  const order: string[] = [];
  await Promise.all([
    ...streams.map((stream) => stream.decode(FRAMES).then(() => order.push('many'))),
    single.decode(FRAMES).then(() => order.push('single')),
  ]);
  expect(order).toHaveLength(21);
  expect(order.indexOf('single')).toBeLessThan(6);
  for (const stream of [...streams, single]) stream.close();
  expect(thread.size).toBe(0);
});

test('a job that waits for its turn while the thread crashes is done by the next thread', async () => {
  const thread = new DecoderThread(HANGING);
  const [crashing, ...others] = Array.from({ length: 10 }, () => thread.open('flac'));
  const answers = await Promise.allSettled([
    crashing!.decode([]),
    ...others.map((stream) => stream.decode(FRAMES)),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([
    'rejected',
    ...others.map(() => 'fulfilled'),
  ]);
  for (const stream of others) stream.close();
});

test('the share of time in which the thread is busy is 1 while it decodes, and 0 without a thread', async () => {
  const thread = new DecoderThread(HANGING);
  expect(thread.sampleBusyShare()).toBe(0);
  const decoder = thread.open('flac');
  await decoder.decode(FRAMES);
  thread.sampleBusyShare();
  const hostile = thread.open('mp3');
  void hostile.decode(FRAMES);
  await vi.waitFor(() => expect(thread.sampleBusyShare()).toBeGreaterThan(0.99), 5000);
  for (const each of [hostile, decoder]) each.close();
  expect(thread.sampleBusyShare()).toBe(0);
});

test('a thread begins again after its last stream has closed', async () => {
  const thread = new DecoderThread(HANGING);
  for (let i = 0; i < 2; i += 1) {
    const decoder = thread.open('flac');
    expect(await decoder.decode(FRAMES)).toMatchObject({ rateHz: 8000 });
    decoder.close();
  }
});

test('a thread that cannot be started is told at once, each time', async () => {
  const thread = new DecoderThread(new URL('http://127.0.0.1/no-program'));
  const decoder = thread.open('flac');
  await expect(decoder.decode(FRAMES)).rejects.toThrow('URL');
  await expect(decoder.decode(FRAMES)).rejects.toThrow('URL');
  decoder.close();
  expect(thread.size).toBe(0);
});
