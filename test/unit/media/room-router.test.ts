import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import type { MediaWorker } from '../../../src/media/media-worker.ts';
import { RoomRouter } from '../../../src/media/room-router.ts';
import { silentLog } from '../../support/gateway.ts';

/** Opens a room's router on a media worker that dies when it is asked for the plain transport. */
async function openOnDying(createPlainTransport: (router: EventEmitter) => Promise<unknown>) {
  const router = Object.assign(new EventEmitter(), {
    createPlainTransport: () => createPlainTransport(router),
    close: () => {},
  });
  const worker = { openRouter: async () => router } as unknown as MediaWorker;
  let losses = 0;
  const opening = RoomRouter.open(worker, {
    chooseOther: () => undefined,
    maxConsumers: 1,
    expectedSpeakers: 0,
    spreadAgainAfterMs: 1,
    log: silentLog,
    onLost: () => (losses += 1),
  });
  await expect(opening).rejects.toThrow('died');
  return losses;
}

test('a router whose media worker dies while it is opened rejects, and is not reported as lost', async () => {
  const losses = await openOnDying(async (router) => {
    router.emit('workerclose');
    throw new Error('died');
  });
  expect(losses).toBe(0);
});

test('a router whose media worker has died when its last step succeeds rejects, too', async () => {
  const losses = await openOnDying(async (router) => ({
    tuple: { localPort: 9 },
    connect: async () => void router.emit('workerclose'),
    close: () => {},
  }));
  expect(losses).toBe(0);
});
