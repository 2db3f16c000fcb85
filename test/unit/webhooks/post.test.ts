import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer, globalAgent, type RequestListener } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { postEvent } from '../../../src/webhooks/post.ts';

const SECRET = `whsec_${Buffer.alloc(32).toString('base64')}`;
const LONG_MS = 60_000;

async function openEndpoint(
  answer: RequestListener,
  ports = [0],
): Promise<{ port: number; sockets: () => number }> {
  let sockets = 0;
  const endpoint = createServer(answer).on('connection', () => {
    sockets += 1;
  });
  for (const port of ports) {
    if (endpoint.listening) break;
    endpoint.listen(port, '127.0.0.1');
    await once(endpoint, 'listening').catch(() => {});
  }
  onTestFinished(() => {
    endpoint.closeAllConnections();
    endpoint.close();
  });
  return { port: (endpoint.address() as AddressInfo).port, sockets: () => sockets };
}

const post = (url: string, timeoutMs = LONG_MS) =>
  postEvent({ url, secret: SECRET }, 'evt_1', '{}', Date.now(), AbortSignal.timeout(timeoutMs));

test('hosts whose names are not answered hold up no other host', async () => {
  vi.spyOn(Resolver.prototype, 'resolve4').mockImplementation((name: string) =>
    name.startsWith('dead') ? new Promise(() => {}) : Promise.resolve(['127.0.0.1']),
  );
  vi.spyOn(Resolver.prototype, 'resolve6').mockResolvedValue([]);
  onTestFinished(() => void vi.restoreAllMocks());
  const { port } = await openEndpoint((_request, response) => response.writeHead(204).end());
  const dead = new AbortController();
  const requests = Array.from({ length: 100 }, (_, index) =>
    postEvent(
      { url: `http://dead${index % 20}.test:${port}/`, secret: SECRET },
      'evt_1',
      '{}',
      Date.now(),
      dead.signal,
    ),
  );
  await post(`http://healthy.test:${port}/`);
  dead.abort(new Error('over'));
  await Promise.all(requests.map((request) => expect(request).rejects.toThrow('over')));
});

test('each address of a host has seconds to connect', async () => {
  const connect = vi.spyOn(globalAgent, 'createConnection');
  onTestFinished(() => connect.mockRestore());
  const { port } = await openEndpoint((_request, response) => response.writeHead(204).end());
  await post(`http://127.0.0.1:${port}/`);
  const options: unknown = expect.objectContaining({ autoSelectFamilyAttemptTimeout: 2500 });
  expect(connect).toHaveBeenCalledExactlyOnceWith(options, expect.anything());
});

test('the answers of an endpoint leave its connection for the next event', async () => {
  const { port, sockets } = await openEndpoint((_request, response) => response.end('thanks'));
  for (let event = 0; event < 5; event += 1) await post(`http://127.0.0.1:${port}/`);
  expect(sockets()).toBe(1);
});

test('an endless body is not read', async () => {
  const closed = vi.fn<() => void>();
  const { port } = await openEndpoint((_request, response) => {
    response.on('close', closed).writeHead(200).write('and so on');
  });
  await post(`http://127.0.0.1:${port}/`);
  await expect.poll(() => closed.mock.calls.length).toBe(1);
});

test('an endpoint may have any port, also those that fetch() refuses', async () => {
  const refused = [10080, 6697, 6669, 6668, 6667, 4190];
  const { port } = await openEndpoint((_request, response) => response.end(), refused);
  expect(refused).toContain(port);
  await post(`http://127.0.0.1:${port}/`);
});

test('redirects, other protocols and closed connections are faults', async () => {
  const redirecting = await openEndpoint((_request, response) =>
    response.writeHead(302, { location: '/elsewhere' }).end(),
  );
  await expect(post(`http://127.0.0.1:${redirecting.port}/`)).rejects.toThrow('answered 302');
  for (const answer of ['HTTP/1.1 101 Other\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n', '']) {
    const endpoint = createTcpServer((socket) => {
      socket.on('error', () => {}).once('data', () => socket.end(answer));
    });
    endpoint.listen(0, '127.0.0.1');
    await once(endpoint, 'listening');
    onTestFinished(() => void endpoint.close());
    const { port } = endpoint.address() as AddressInfo;
    await expect(post(`http://127.0.0.1:${port}/`)).rejects.toThrow(/closed|hang up/);
  }
});

test('an endpoint that does not answer in time is a fault that says so', async () => {
  const { port } = await openEndpoint(() => {});
  await expect(post(`http://127.0.0.1:${port}/`, 50)).rejects.toThrow('timeout');
});
