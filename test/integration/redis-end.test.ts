import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { expect, test, vi } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { Redis } from '../../src/store/redis.ts';
import { silentLog } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, cleanUps } = useStack();

const fixture = (name: string) => readFile(new URL(`../fixtures/${name}`, import.meta.url));
const { redis: timings } = timingsWith({ redis: { startWithinMs: 2500 } });

/**
 * A Redis behind a path that holds connections: over TLS before their handshake, without it before the first answer.
 * @param letThrough number of connections that pass before
 */
async function openHeldRedis(letThrough: number, isTls = true) {
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
  const redis = await openRedis();
  const certificate = { cert: await fixture('tls-cert.pem'), key: await fixture('tls-key.pem') };
  const join = (one: Socket, port: string | number) => {
    const other = connect(Number(port), '127.0.0.1');
    one.on('error', () => {}).on('close', () => other.destroy());
    other.on('error', () => {}).on('close', () => one.destroy());
    one.pipe(other).pipe(one);
  };
  const tls = createTlsServer(certificate, (socket) => join(socket, new URL(redis.url).port));
  const isOpen = new Set<Socket>();
  const held: Socket[] = [];
  let passed = 0;
  const pass = (socket: Socket) =>
    join(socket, isTls ? (tls.address() as AddressInfo).port : new URL(redis.url).port);
  const path = createServer({ pauseOnConnect: true }, (socket) => {
    isOpen.add(socket);
    socket.once('close', () => isOpen.delete(socket));
    passed += 1;
    if (passed <= letThrough) pass(socket);
    else held.push(socket);
  });
  const end = () => {
    for (const socket of isOpen) socket.destroy();
  };
  cleanUps.push(() => {
    vi.unstubAllEnvs();
    end();
    tls.close();
    path.close();
  });
  for (const server of [tls, path]) await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    address: {
      url: `redis${isTls ? 's' : ''}://127.0.0.1:${(path.address() as AddressInfo).port}`,
    },
    held,
    /** Holds all connections that come from now on. */
    hold: () => (letThrough = 0),
    end,
    release: () => held.forEach(pass),
    countOpen: () => isOpen.size,
  };
}

test.each([
  ['the first connection', 0],
  ['the connection for subscriptions', 1],
])('a start that gives up while %s is being made leaves none open', async (_which, before) => {
  const { address, held, release, countOpen } = await openHeldRedis(before);
  await expect(Redis.connect(address, silentLog, timings)).rejects.toThrow('cannot be reached');
  expect(held).toHaveLength(1);
  release();
  await expect.poll(countOpen).toBe(0);
});

test('a store that is closed while it waits for an answer to a reconnect, whose connection then ends, is closed', async () => {
  const { address, held, hold, end } = await openHeldRedis(Infinity, false);
  const redis = await Redis.connect(address, silentLog, timingsWith({}).redis);
  hold();
  end();
  await expect.poll(() => held.length).toBe(2);
  const closed = redis.close();
  end();
  await expect(closed).resolves.toBeUndefined();
});

test('a store that is closed while it reconnects leaves no connection open', async () => {
  const { address, held, hold, end, release, countOpen } = await openHeldRedis(Infinity);
  const redis = await Redis.connect(address, silentLog, timingsWith({}).redis);
  hold();
  end();
  await expect.poll(() => held.length).toBe(2);
  await redis.close();
  release();
  await expect.poll(countOpen).toBe(0);
});
