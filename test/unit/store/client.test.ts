import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { newRedisClient, type ServerAddress } from '../../../src/store/client.ts';

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) cleanUp();
});

const fixture = (name: string) =>
  readFileSync(new URL(`../../fixtures/${name}`, import.meta.url), 'utf8');

/** Last words of a client that connects, before it waits for answers. */
const END_OF_HANDSHAKE = /LIB-NAME\r\n\$\d+\r\nnode-redis\r\n/;

/** Servers that note what each client says at first, and answer nothing. */
function openServers() {
  const said: string[] = [];
  const listen = async (server: Server, at: { port: 0; host: string } | { path: string }) => {
    server.on('connection', (socket) => cleanUps.push(() => void socket.destroy()));
    cleanUps.push(() => void server.close());
    await once(server.listen(at), 'listening');
    return server;
  };
  const note = (socket: NodeJS.ReadableStream) => {
    let text = '';
    socket
      .on('error', () => {})
      .on('data', (bytes: Buffer) => {
        text += bytes.toString();
        if (END_OF_HANDSHAKE.test(text)) said.push(wordsOf(text));
      });
  };
  const portOf = (server: Server) => (server.address() as AddressInfo).port;
  return {
    said,
    openTcp: async (host = '127.0.0.1') =>
      portOf(await listen(createServer(note), { port: 0, host })),
    openTls: async () => {
      vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
      cleanUps.push(() => void vi.unstubAllEnvs());
      const certificate = { cert: fixture('tls-cert.pem'), key: fixture('tls-key.pem') };
      const server = createTlsServer(certificate, note);
      return portOf(await listen(server, { port: 0, host: '127.0.0.1' }));
    },
    openSocket: async () => {
      const folder = mkdtempSync(join(tmpdir(), 'partyline-client-'));
      cleanUps.push(() => rmSync(folder, { recursive: true }));
      const path = join(folder, 'redis.sock');
      await listen(createServer(note), { path });
      return path;
    },
  };
}

/** Words of commands as Redis reads them, without those that introduce the library. */
function wordsOf(text: string): string {
  const words = text.split('\r\n').filter((line) => line !== '' && !/^[*$]\d+$/.test(line));
  return words.join(' ').replace(/ CLIENT SETINFO.*$/, '');
}

function connect(address: ServerAddress, options = {}) {
  const client = newRedisClient(address, DEFAULT_TIMINGS.redis, options);
  client.on('error', () => {});
  client.connect().catch(() => {});
  cleanUps.push(() => client.destroy());
  return client;
}

describe('newRedisClient()', () => {
  test.each([
    ['', '', 'HELLO 3'],
    ['', '/0', 'HELLO 3'],
    ['', '/3', 'HELLO 3 SELECT 3'],
    [':word@', '/3', 'HELLO 3 AUTH default word SELECT 3'],
    ['ada:p%40ss%3A%2F@', '/12', 'HELLO 3 AUTH ada p@ss:/ SELECT 12'],
  ])('credentials "%s" and database "%s" of redis:// and rediss://', async (login, path, words) => {
    const { said, openTcp, openTls } = openServers();
    connect({ url: `redis://${login}127.0.0.1:${await openTcp()}${path}` });
    await expect.poll(() => said).toEqual([words]);
    connect({ url: `rediss://${login}127.0.0.1:${await openTls()}${path}` });
    await expect.poll(() => said).toEqual([words, words]);
  });

  test('an address of IPv6', async () => {
    const { said, openTcp } = openServers();
    connect({ url: `redis://[::1]:${await openTcp('::1')}` });
    await expect.poll(() => said).toEqual(['HELLO 3']);
  });

  test('a socket, with and without a login', async () => {
    const { said, openSocket } = openServers();
    const login = { username: 'ada', password: 'word', database: 4 };
    connect({ socketPath: await openSocket(), login });
    await expect.poll(() => said).toEqual(['HELLO 3 AUTH ada word SELECT 4']);
    connect({ socketPath: await openSocket() });
    await expect.poll(() => said).toEqual(['HELLO 3 AUTH ada word SELECT 4', 'HELLO 3']);
  });

  test('a duplicate has what its original has', async () => {
    const { said, openTls } = openServers();
    const client = connect({ url: `rediss://ada:word@127.0.0.1:${await openTls()}/4` });
    const words = 'HELLO 3 AUTH ada word SELECT 4';
    await expect.poll(() => said).toEqual([words]);
    const duplicate = client.duplicate();
    duplicate.on('error', () => {});
    duplicate.connect().catch(() => {});
    cleanUps.push(() => duplicate.destroy());
    await expect.poll(() => said).toEqual([words, words]);
  });

  test('options are those of each client', async () => {
    const address = { url: 'redis://ada:word@127.0.0.1:1/4' };
    const patient = newRedisClient(address, DEFAULT_TIMINGS.redis, { isPatient: true });
    const other = newRedisClient({ socketPath: '/nowhere' }, DEFAULT_TIMINGS.redis);
    expect(patient.options).toMatchObject({
      disableOfflineQueue: false,
      commandsQueueMaxLength: 20_000,
      socket: { host: '127.0.0.1', port: 1, tls: false },
      username: 'ada',
      password: 'word',
      database: 4,
    });
    expect(other.options).toMatchObject({
      disableOfflineQueue: true,
      commandsQueueMaxLength: 20_000,
      socket: { path: '/nowhere', tls: false },
    });
    for (const name of ['url', 'username', 'password', 'database', 'credentialsProvider']) {
      expect(other.options).not.toHaveProperty(name);
    }
  });

  test('a name is told to Redis, and a duplicate may have another', async () => {
    const { said, openTcp } = openServers();
    const client = connect({ url: `redis://127.0.0.1:${await openTcp()}` }, { name: 'ada' });
    await expect.poll(() => said).toEqual(['HELLO 3 SETNAME ada']);
    const duplicate = client.duplicate({ name: 'bob' });
    duplicate.on('error', () => {});
    duplicate.connect().catch(() => {});
    cleanUps.push(() => duplicate.destroy());
    await expect.poll(() => said).toEqual(['HELLO 3 SETNAME ada', 'HELLO 3 SETNAME bob']);
  });

  test('a client with a limit of its silence asks for signs of life, as does its duplicate', () => {
    const limits = { connectWithinMs: 7, silentMs: 12_000 };
    const client = newRedisClient({ url: 'redis://127.0.0.1' }, DEFAULT_TIMINGS.redis, limits);
    for (const { options } of [client, client.duplicate()]) {
      expect(options).toMatchObject({
        pingInterval: 1000,
        socket: { connectTimeout: 7, socketTimeout: 12_000 },
      });
    }
  });

  test('a client that may not try again ends with the fault', async () => {
    const { openTcp } = openServers();
    const port = await openTcp();
    for (const cleanUp of cleanUps.splice(0)) cleanUp();
    const retries: number[] = [];
    const mayRetry = (retry: number) => {
      retries.push(retry);
      return retry < 1;
    };
    const client = newRedisClient({ url: `redis://127.0.0.1:${port}` }, DEFAULT_TIMINGS.redis, {
      mayRetry,
    });
    client.on('error', () => {});
    await expect(client.connect()).rejects.toThrow('ECONNREFUSED');
    expect(retries).toEqual([0, 1]);
  });
});
