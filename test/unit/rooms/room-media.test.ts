import { expect, test } from 'vitest';
import type { MediaWorkerPool } from '../../../src/media/media-worker-pool.ts';
import { RoomMedia } from '../../../src/rooms/room-media.ts';
import { silentLog } from '../../support/gateway.ts';

test('a client of a room without a media worker is refused when it has waited long enough', async () => {
  let lose = () => {};
  const pool = {
    longestWaitMs: 20,
    isExitExpected: true,
    openRouter: async (onLost: () => void) => {
      lose = onLost;
      return { close: () => {} };
    },
  };
  const media = await RoomMedia.open(pool as unknown as MediaWorkerPool, silentLog, {
    onLost: () => {},
    onReplaced: () => {},
  });
  pool.openRouter = () => Promise.reject(new Error('no media worker'));
  lose();
  await expect(media.openInput({} as never)).rejects.toMatchObject({ code: 'media_lost' });
  media.close();
});
