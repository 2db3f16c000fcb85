import type { FastifyBaseLogger } from 'fastify';
import { expect, test, vi } from 'vitest';
import { openWorkerServer } from '../../../workers/worker-server.ts';
import { freePort } from '../../support/free-ports.ts';

test('Redis is not asked for each request of /metrics', async () => {
  const port = await freePort();
  const redis = { isAvailable: vi.fn<() => Promise<boolean>>(async () => true) };
  const log = { error: () => {} } as unknown as FastifyBaseLogger;
  const server = await openWorkerServer(
    { HOST: '127.0.0.1', WORKER_PORT: port },
    { redis, clock: { offsetMs: 0 }, scrapeEveryMs: 3_600_000, log },
  );
  try {
    const pages = await Promise.all(
      Array.from({ length: 20 }, async () =>
        (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
      ),
    );
    expect(pages[0]).toContain('partyline_redis_up 1');
    expect(new Set(pages).size).toBe(1);
    expect(redis.isAvailable).toHaveBeenCalledTimes(1);
  } finally {
    server.close();
  }
});

test('a port that is taken is named with its settings', async () => {
  const port = await freePort();
  const open = () => {
    const redis = { isAvailable: async () => true };
    const log = { error: () => {} } as unknown as FastifyBaseLogger;
    const parts = { redis, clock: { offsetMs: 0 }, scrapeEveryMs: 1000, log };
    return openWorkerServer({ HOST: '127.0.0.1', WORKER_PORT: port }, parts);
  };
  const server = await open();
  try {
    await expect(open()).rejects.toThrow(`HOST 127.0.0.1 and WORKER_PORT ${port} cannot be used`);
  } finally {
    server.close();
  }
});
