import { expect, test } from 'vitest';
import { type TimingOverrides, timingsWith } from '../../../config/timings.ts';
import type { MediaWorkerPool } from '../../../src/media/media-worker-pool.ts';
import { RoomMedia } from '../../../src/rooms/room-media.ts';
import { silentLog } from '../../support/gateway.ts';

/** Media of a room, and the pool of its media workers: `lose` tells it that its own has died. */
async function openMedia(timings: TimingOverrides['mediaWorkers'], onReplaced = () => {}) {
  let lose = () => {};
  const pool = {
    timings: timingsWith({ mediaWorkers: { ...timings } }).mediaWorkers,
    isExitExpected: true,
    openRouter: async (onLost: () => void) => {
      lose = onLost;
      return { close: () => {} };
    },
  };
  const media = await RoomMedia.open(pool as unknown as MediaWorkerPool, silentLog, {
    onLost: () => {},
    onReplaced,
  });
  return { pool, media, lose: () => lose() };
}

test('a client of a room without a media worker is refused when it has waited long enough', async () => {
  const { pool, media, lose } = await openMedia({ longestWaitMs: 20 });
  pool.openRouter = () => Promise.reject(new Error('no media worker'));
  lose();
  await expect(media.openInput({} as never)).rejects.toMatchObject({ code: 'media_lost' });
  media.close();
});

test('a room whose media worker died looks for another, at intervals that grow up to a limit', async () => {
  const waitsMs: number[] = [];
  const { promise: replaced, resolve } = Promise.withResolvers<void>();
  const timings = { firstRoomRetryMs: 10, longestRoomRetryMs: 30 };
  const { pool, media, lose } = await openMedia(timings, resolve);
  const open = pool.openRouter;
  let lastMs = performance.now();
  pool.openRouter = async (onLost) => {
    const nowMs = performance.now();
    waitsMs.push(nowMs - lastMs);
    lastMs = nowMs;
    if (waitsMs.length < 5) throw new Error('no media worker');
    return open(onLost);
  };
  lose();
  await replaced;
  // A timer may fire a millisecond early.
  const leastMs = [0, 9, 19, 29, 29];
  expect(waitsMs.map((waitMs, index) => waitMs >= leastMs[index]!)).toEqual(Array(5).fill(true));
  expect(media.isAvailable).toBe(true);
  media.close();
});
