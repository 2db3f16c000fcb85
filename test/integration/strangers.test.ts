import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Redis } from '../../src/store/redis.ts';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess } from '../support/process.ts';
import { useGateway } from '../support/use-gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openGateway, openStore, createAccount, connect, enter, cleanUps } = useStack();

const OPERATOR_KEY = 'operator-key-of-the-tests';
const operator = { authorization: `Bearer ${OPERATOR_KEY}` };

/** Asks for a path as it is written, which fetch would change. */
async function statusOf(url: string, path: string, headers = {}): Promise<number | undefined> {
  const { hostname, port } = new URL(url);
  const [response] = await once(get({ hostname, port, path, headers, agent: false }), 'response');
  response.resume();
  return response.statusCode;
}

/** Number of commands by which Redis was asked for a key or an account, and has counted requests or failures. */
async function looksAndCounts(store: Redis): Promise<number> {
  const info = await store.run((client) => client.info('commandstats'));
  const calls = info.matchAll(/cmdstat_(?:hgetall|incrby):calls=(\d+)/g);
  return [...calls].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** A bare TCP connection. */
function dial(url: string): Socket {
  const { hostname, port } = new URL(url);
  const socket = createConnection(Number(port), hostname);
  socket.on('error', () => {}).resume();
  cleanUps.push(() => void socket.destroy());
  return socket;
}

describe('paths', () => {
  test('whose fixed parts are percent-encoded lead nowhere; names may be encoded', async () => {
    const gateway = await openGateway({ OPERATOR_KEY });
    await enter(gateway, 'ada');
    const { account_id: id } = { account_id: gateway.demo!.account.id };
    for (const path of ['/metrics', '/admin/', `/api/admin/rooms/${id}/%61`]) {
      expect([path, await statusOf(gateway.url, path, operator)]).toEqual([path, 200]);
    }
    for (const path of [
      '/%6detrics',
      '/%61dmin/',
      '/x/../admin/',
      '/api/%61dmin/nodes',
      `/api/admin/%72ooms/${id}/a`,
      '/api/admin/accounts/1/peers/ada/%6bick',
    ]) {
      expect([path, await statusOf(gateway.url, path, operator)]).toEqual([path, 404]);
    }
  });

  test('/metrics gathers figures once in a second, however often it is asked', async () => {
    const gateway = await openGateway({}, { load: { scrapeEveryMs: 600_000 } });
    const scrape = async () => (await fetch(`${gateway.url}/metrics`)).text();
    const first = await Promise.all([scrape(), scrape()]);
    await enter(gateway, 'ada');
    expect(new Set([...first, await scrape()]).size).toBe(1);
  });
});

describe('answers to browsers', () => {
  const used = useGateway();

  test.each(['/', '/admin/', '/api/docs/', '/api/me', '/nowhere'])(
    '%s says in headers what browsers must not do with it',
    async (path) => {
      const { headers } = await fetch(`${used.gateway.url}${path}`);
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
    },
  );

  test('the page connects to its own origin alone', async () => {
    const answer = await fetch(used.gateway.url);
    expect(answer.headers.get('content-security-policy')).toContain("; connect-src 'self';");
    expect(await answer.text()).toContain("; connect-src 'self';");
  });

  test('answers of the API are stored nowhere', async () => {
    const { headers } = await fetch(`${used.gateway.url}/api/me`);
    expect(headers.get('cache-control')).toBe('no-store');
  });

  test('files whose names change with their contents are kept by browsers, and no others', async () => {
    const load = async (path: string) => {
      const answer = await fetch(`${used.gateway.url}/${path}`);
      const caching = `${answer.status} ${answer.headers.get('cache-control')}`;
      return { caching, text: await answer.text() };
    };
    const page = await load('');
    expect(page.caching).toBe('200 public, max-age=0');
    const files = [...page.text.matchAll(/="\.\/(assets\/[^"]+)"/g)].map(([, file]) => file!);
    expect(files.length).toBeGreaterThan(1);
    for (const file of files) {
      expect((await load(file)).caching).toBe('200 public, max-age=31536000, immutable');
    }
    expect((await load('assets/page-00000000.js')).caching).toBe('404 null');
  });
});

describe('requests that do not wait for answers', () => {
  const requests = (count: number, path: string) =>
    `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(count);
  const filesOpen = () =>
    readdirSync('/proc/self/fd').filter((descriptor) => {
      try {
        return readlinkSync(`/proc/self/fd/${descriptor}`).includes('/build/web/');
      } catch {
        // The descriptor of the listing itself.
        return false;
      }
    }).length;

  test('are answered in order while they are few', async () => {
    const gateway = await openGateway();
    const socket = dial(gateway.url);
    let answers = '';
    socket.setEncoding('utf8').on('data', (text: string) => (answers += text));
    socket.write(requests(8, '/healthz') + requests(1, '/nowhere'));
    await eventually('all are answered', () => answers.includes('404'));
    expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual([
      ...Array.from({ length: 8 }, () => 'HTTP/1.1 200'),
      'HTTP/1.1 404',
    ]);
    socket.write(requests(8, '/healthz'));
    await eventually('later ones are, too', () => answers.split('HTTP/1.1 200').length === 17);
  });

  test('end their connection when they are many, and keep no file open', async () => {
    const gateway = await openGateway();
    const fileLike = (name: RegExp) =>
      readdirSync('build/web/assets').find((file) => name.test(file))!;
    // A megabyte.
    const file = fileLike(/^encoder-worker.*\.map$/);
    const short = fileLike(/^decoder-worker.*\.map$/);
    // 15 files are more than the buffers of a connection hold. The buffers may fill up when a file
    // is read and not yet sent: the connections reach that at different places of their files.
    const few = Array.from({ length: 4 }, (_, index) => {
      const socket = dial(gateway.url).pause();
      socket.write(requests(index, `/assets/${short}`));
      socket.write(requests(15 - index, `/assets/${file}`));
      return socket;
    });
    let most = 0;
    const countFiles = () => {
      const count = filesOpen();
      most = Math.max(most, count);
      return count;
    };
    await expect.poll(countFiles).toBeGreaterThan(2);
    expect(await statusOf(gateway.url, '/healthz')).toBe(200);
    countFiles();
    expect(most).toBeLessThanOrEqual(few.length);
    const many = dial(gateway.url).pause();
    many.write(requests(700, `/assets/${file}`));
    await once(many, 'close');
    for (const socket of few) socket.destroy();
    await eventually('all files are closed', () => filesOpen() === 0);
  });
});

describe('before a client is known', () => {
  test('its body is not read: 401 comes before 400, 413 and 415', async () => {
    const gateway = await openGateway();
    const post = async (key: string, body: string, type = 'application/json') => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': type };
      const response = await fetch(`${gateway.url}/api/tokens`, { method: 'POST', headers, body });
      const { code } = (await response.json()) as { code: string };
      return [response.status, code];
    };
    const bodies = [
      ['{"peer":', 'application/json', 400, 'bad_request'],
      ['x'.repeat(70_000), 'application/json', 413, 'message_too_big'],
      ['<a/>', 'text/xml', 415, 'unsupported_media_type'],
    ] as const;
    for (const [body, type, status, code] of bodies) {
      expect(await post('pl_wrong', body, type)).toEqual([401, 'unauthorized']);
      expect(await post(gateway.apiKey, body, type)).toEqual([status, code]);
    }
  });

  test('it has a limited time to send a request, head or body', async () => {
    const gateway = await openGateway({}, { http: { requestMs: 300 } });
    const silent = dial(gateway.url);
    const slowHead = dial(gateway.url);
    slowHead.write('GET / HTTP/1.1\r\nHost: a\r\n');
    const slowBody = dial(gateway.url);
    slowBody.write(
      `POST /api/tokens HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${gateway.apiKey}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
    );
    await Promise.all([silent, slowHead, slowBody].map((socket) => once(socket, 'close')));
    const client = await enter(gateway, 'ada');
    const { host } = new URL(gateway.url);
    expect(await statusOf(gateway.url, '/healthz', { host })).toBe(200);
    expect(await client.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
  });

  test('it has a limited time for the TLS handshake', async () => {
    const fixture = (name: string) => join(import.meta.dirname, '../fixtures', name);
    const tls = { TLS_CERT: fixture('tls-cert.pem'), TLS_KEY: fixture('tls-key.pem') };
    const gateway = await openGateway(tls, { http: { requestMs: 300 } });
    const closed = once(dial(gateway.url), 'close', { signal: AbortSignal.timeout(30_000) });
    await expect(closed).resolves.toHaveLength(1);
  });

  test('its address has a limited number of connections; authenticated ones do not count', async () => {
    const gateway = await openGateway({ CONNECTIONS_PER_ADDRESS: '3' });
    for (let peer = 0; peer < 10; peer += 1) await enter(gateway, `p${peer}`);
    const strangers = [dial(gateway.url), dial(gateway.url), dial(gateway.url)];
    await Promise.all(strangers.map((socket) => once(socket, 'connect')));
    await once(dial(gateway.url), 'close');
    await expect(connect(gateway, { peer: 'late' })).rejects.toThrow(
      /socket hang up|ECONNRESET|EPIPE/,
    );
    strangers[0]!.destroy();
    await eventually('there is room for one more', async () => {
      try {
        await enter(gateway, 'later');
        return true;
      } catch {
        return false;
      }
    });
  });

  test('its connections count again after an authenticated request, unless they are WebSockets', async () => {
    const gateway = await openGateway({ CONNECTIONS_PER_ADDRESS: '3' });
    const headers = { authorization: `Bearer ${gateway.apiKey}` };
    const ask = async () => {
      const agent = new Agent({ keepAlive: true });
      cleanUps.push(() => agent.destroy());
      const [response] = await once(get(`${gateway.url}/api/me`, { headers, agent }), 'response');
      expect(response.statusCode).toBe(200);
      response.resume();
      return agent;
    };
    const isLetIn = (act: () => Promise<unknown>) => () =>
      act().then(
        () => true,
        () => false,
      );
    const [first] = [await ask(), await ask(), await ask()];
    await expect(ask()).rejects.toThrow(/socket hang up|ECONNRESET|EPIPE/);
    first.destroy();
    await eventually(
      'there is room for a WebSocket',
      isLetIn(() => enter(gateway, 'ada')),
    );
    await eventually('and for another request', isLetIn(ask));
  });

  test('a connection over the limit ends after the answer to its authenticated request', async () => {
    const gateway = await openGateway({ CONNECTIONS_PER_ADDRESS: '1' });
    const body = '{"peer":"ada"}';
    const begin = async () => {
      const socket = dial(gateway.url);
      socket.write(
        `POST /api/tokens HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${gateway.apiKey}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
      );
      await eventually('its request is authenticated', () =>
        statusOf(gateway.url, '/healthz').then(
          () => true,
          () => false,
        ),
      );
      return socket;
    };
    const finish = async (socket: Socket) => {
      socket.write(body);
      const [answer] = await once(socket, 'data');
      return /^connection: .*$/im.exec(String(answer))?.[0].toLowerCase();
    };
    const [first, second] = [await begin(), await begin()];
    expect(await finish(first)).toBe('connection: keep-alive');
    const closed = once(second, 'close');
    expect(await finish(second)).toBe('connection: close');
    await closed;
  });

  test('behind a proxy it is its own address that counts, while it is not answered', async () => {
    const gateway = await openGateway({ CONNECTIONS_PER_ADDRESS: '1', TRUST_PROXY: '127.0.0.1' });
    const idle = [dial(gateway.url), dial(gateway.url)];
    await Promise.all(idle.map((socket) => once(socket, 'connect')));
    for (const address of ['192.0.2.1', '192.0.2.1', '192.0.2.2']) {
      const headers = { 'x-forwarded-for': address };
      expect((await fetch(`${gateway.url}/healthz`, { headers })).status).toBe(200);
    }
    for (const peer of ['ada', 'bob']) {
      const query = { peer, room: 'a' };
      const client = await connect(gateway, query, { 'x-forwarded-for': '192.0.2.1' });
      await client.next('joined');
    }
  });
});

test('behind a proxy any text in headers of forwarding is answered, and counts as an address', async () => {
  const gateway = await openGateway({ TRUST_PROXY: '127.0.0.1', AUTH_FAILURES_PER_ADDRESS: '1' });
  const text = fc.oneof(
    fc.string({ maxLength: 200 }),
    fc.ipV6(),
    fc.array(fc.oneof(fc.ipV4(), fc.string({ maxLength: 20 })), { maxLength: 20 }).map(String),
  );
  const names = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'forwarded'];
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), text, async (name, value) => {
      const headers = { [name]: value, authorization: 'Bearer pl_wrong' };
      expect(await statusOf(gateway.url, '/api/me', headers)).toBeOneOf([401, 429]);
    }),
    { seed: 20_261_124, numRuns: 150 },
  );
  expect(await statusOf(gateway.url, '/healthz')).toBe(200);
});

describe('the operator key', () => {
  test('may be guessed a limited number of times from an address; nothing of a wrong one is stored', async () => {
    const redis = await openRedis();
    const environment = { REDIS_URL: redis.url, OPERATOR_KEY, AUTH_FAILURES_PER_ADDRESS: '3' };
    const { url } = await openGateway(environment);
    const ask = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      return (await fetch(`${url}/api/admin/accounts`, { headers })).status;
    };
    expect(await ask(OPERATOR_KEY)).toBe(200);
    const wrong = `${OPERATOR_KEY}x`;
    expect([await ask(wrong), await ask(wrong), await ask(wrong)]).toEqual([401, 401, 401]);
    expect(await ask(wrong)).toBe(429);
    expect(await ask(OPERATOR_KEY)).toBe(429);
    const store = await openStore(redis);
    const keys = await store.run((client) => client.keys('*'));
    expect(keys.filter((key) => key.includes(OPERATOR_KEY.slice(0, 4)))).toEqual([]);
  });

  test('sent where clients send their keys, tokens and invitations, is refused; nothing of it is stored', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url, OPERATOR_KEY });
    const { url } = gateway;
    for (const key of [OPERATOR_KEY, `${OPERATOR_KEY}x`]) {
      const headers = { authorization: `Bearer ${key}` };
      expect((await fetch(`${url}/api/me`, { headers })).status).toBe(401);
      expect((await fetch(`${url}/whip/a?peer=ada`, { method: 'POST', headers })).status).toBe(401);
      const redeemed = await fetch(`${url}/api/invites/redeem`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ invite: key }),
      });
      expect(redeemed.status).toBe(404);
      for (const query of [{ api_key: key }, { api_key: undefined, token: key }]) {
        expect(await (await connect(gateway, query)).closed).toBe(4401);
      }
    }
    const store = await openStore(redis);
    const keys = await store.run((client) => client.keys('partyline:limit:*'));
    expect(keys).toEqual(['partyline:limit:address:127.0.0.1']);
  });
});

test('an address that fails far too often is refused without a look at Redis; keys that are known are let in', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url, AUTH_FAILURES_PER_ADDRESS: '2' });
  const { apiKey } = await createAccount(redis, 'free');
  const ask = async (key: string) => {
    const headers = { authorization: `Bearer ${key}` };
    return (await fetch(`${gateway.url}/api/me`, { headers })).status;
  };
  const store = await openStore(redis);
  expect(await ask(apiKey)).toBe(200);
  // A key is looked up, and failures are counted of its address and of keys that begin like it.
  const start = await looksAndCounts(store);
  expect(await ask('pl_wrong')).toBe(401);
  expect(await looksAndCounts(store)).toBe(start + 3);
  for (let tries = 1; tries < 20; tries += 1) await ask(`pl_wrong${tries}`);
  const before = await looksAndCounts(store);
  for (let tries = 0; tries < 20; tries += 1) expect(await ask(`pl_other${tries}`)).toBe(429);
  expect(await looksAndCounts(store)).toBe(before);
  expect(await ask(apiKey)).toBe(200);
});

test('an account over its requests is refused without a look at Redis', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url, REQUESTS_PER_ACCOUNT: '2' });
  const ask = async (apiKey: string) => {
    const headers = { authorization: `Bearer ${apiKey}` };
    return (await fetch(`${gateway.url}/api/me`, { headers })).status;
  };
  const { apiKey } = await createAccount(redis, 'free');
  expect([await ask(apiKey), await ask(apiKey), await ask(apiKey)]).toEqual([200, 200, 429]);
  const store = await openStore(redis);
  const before = await looksAndCounts(store);
  for (let tries = 0; tries < 20; tries += 1) expect(await ask(apiKey)).toBe(429);
  expect(await looksAndCounts(store)).toBe(before);
  expect(await ask((await createAccount(redis, 'free')).apiKey)).toBe(200);
});

test('the log sums up the requests of an account beyond 60, and what it is refused', async () => {
  const gateway = await GatewayProcess.start({ REQUESTS_PER_ACCOUNT: '70' });
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey, account_id: account } = await gateway.ready();
  const headers = { authorization: `Bearer ${apiKey}` };
  for (let tries = 0; tries < 80; tries += 1) await fetch(`${url}/api/me`, { headers });
  gateway.child.kill('SIGTERM');
  await gateway.exited;
  expect(gateway.logged('request refused')).toHaveLength(1);
  const [summary] = gateway.logged('further requests refused');
  expect(summary?.['refused']).toEqual({ '429': 9 });
  expect(gateway.output.match(/"path":"\/api\/me"/g)).toHaveLength(120);
  expect(gateway.logged('request completed')).toHaveLength(60);
  expect(gateway.logged('further requests completed')).toMatchObject([
    { account, completed: { '200': 10 } },
  ]);
});

test('the log sums up what strangers and clients over the CCU limit are refused, and leaves health checks out', async () => {
  const redis = await openRedis();
  // Five clients stay.
  const gateway = await GatewayProcess.start({ REDIS_URL: redis.url, DRAIN_MS: '0' });
  cleanUps.push(() => gateway.dispose());
  const { url } = await gateway.ready();
  for (let tries = 0; tries < 20; tries += 1) {
    await fetch(`${url}/healthz`);
    await fetch(`${url}/readyz`);
    await fetch(`${url}/metrics`);
    await fetch(`${url}/api/me`, { headers: { authorization: 'Bearer pl_wrong' } });
    const client = await TestClient.connect(url, { room: 'a', peer: 'p', api_key: 'pl_wrong' });
    await client.closed;
  }
  const node = { url, apiKey: (await createAccount(redis, 'free')).apiKey };
  for (let peer = 0; peer < 5; peer += 1) await enter(node, `p${peer}`);
  for (let tries = 0; tries < 10; tries += 1) {
    expect(await (await connect(node, { peer: 'late' })).closed).toBe(4429);
  }
  gateway.child.kill('SIGTERM');
  await gateway.exited;
  expect(gateway.logged('request refused')).toHaveLength(1);
  const [summary] = gateway.logged('further requests refused');
  expect(summary?.['refused']).toEqual({ '401': 19, unauthorized: 20, ccu_limit: 10 });
  expect(gateway.output.match(/healthz|readyz|metrics|api\/me/g)).toBe(null);
});
