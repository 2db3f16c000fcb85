import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readSettings } from '../../../config/settings.ts';
import { timingsWith } from '../../../config/timings.ts';
import { newServer, registerPlugins, startListening } from '../../../src/http/server.ts';
import { Slices } from '../../../src/slices.ts';

const UPGRADE = [
  'GET /ws HTTP/1.1',
  'Host: a',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  '\r\n',
].join('\r\n');

const onFault = (fault: unknown) => {
  throw fault;
};

/** A server that listens, and a TCP connection to it. */
async function open(environment: Record<string, string> = {}) {
  const settings = readSettings({ LOG_LEVEL: 'silent', ...environment });
  // Longer than a test may take: no limit of the server ends a connection.
  const server = await newServer(settings, timingsWith({ http: { requestMs: 240_000 } }).http);
  await registerPlugins(server, () => {}, new Slices(onFault));
  server.get('/ws', { websocket: true }, () => {});
  const arrived = once(server.server, 'connection');
  await server.listen({ host: '127.0.0.1', port: 0 });
  const connection = connect((server.server.address() as AddressInfo).port, '127.0.0.1');
  connection.on('error', () => {});
  onTestFinished(() => void connection.destroy());
  await arrived;
  return { server, connection };
}

test('a server that closes ends TLS connections that have not shaken hands', async () => {
  const fixture = (name: string) => join(import.meta.dirname, '../../fixtures', name);
  const tls = { TLS_CERT: fixture('tls-cert.pem'), TLS_KEY: fixture('tls-key.pem') };
  const { server, connection } = await open(tls);
  const closed = once(connection.resume(), 'close');
  await expect(server.close()).resolves.toBeUndefined();
  await closed;
});

test('a server that closes ends the connections whose upgrades wait for their turn', async () => {
  const { server, connection } = await open();
  const closed = Promise.withResolvers<void>();
  // The upgrade has come, and is routed in a later turn of the event loop.
  server.server.prependOnceListener('upgrade', () => {
    server.close().then(closed.resolve, closed.reject);
  });
  connection.write(UPGRADE);
  await once(connection.resume(), 'close');
  await expect(closed.promise).resolves.toBeUndefined();
});

test('/admin leads to its page by an address that is good below the path of a proxy, too', async () => {
  const { server } = await open();
  const { statusCode, headers } = await server.inject('/admin');
  // Browsers keep a 301 for good.
  expect(statusCode).toBe(302);
  const { location = '' } = headers;
  for (const root of ['https://voice.example.com/', 'https://example.com/voice/']) {
    expect(new URL(location, `${root}admin`).href).toBe(`${root}admin/`);
  }
  expect((await server.inject('/assets')).statusCode).toBe(404);
  await server.close();
});

test('a server that cannot listen names HOST and PORT, but not for a fault of a plugin', async () => {
  const openAt = async (port: number) => {
    const settings = readSettings({ LOG_LEVEL: 'silent', HOST: '127.0.0.1', PORT: String(port) });
    const server = await newServer(settings, timingsWith({}).http);
    onTestFinished(() => server.close());
    return { server, listen: () => startListening(server, settings, false) };
  };
  const first = await openAt(0);
  await first.listen();
  const { port } = first.server.server.address() as AddressInfo;
  const second = await openAt(port);
  await expect(second.listen()).rejects.toThrow(`HOST 127.0.0.1 and PORT ${port} cannot be used`);
  const third = await openAt(0);
  void third.server.register(() => Promise.reject(new Error('a fault of a plugin')));
  await expect(third.listen()).rejects.toThrow('a fault of a plugin');
});
