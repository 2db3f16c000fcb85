import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { unreadBytesOf } from '../../../src/media/tcp-queues.ts';
import { eventually } from '../../support/gateway.ts';

const readTables = () =>
  ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFileSync(path, 'latin1'));

test.each(['127.0.0.1', '::1'])(
  'what a client at %s does not read is in the table',
  async (host) => {
    const server = createServer();
    onTestFinished(() => void server.close());
    server.listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const accepted = once(server, 'connection');
    const client = createConnection(port, host);
    client.pause();
    onTestFinished(() => void client.destroy());
    const [socket] = (await accepted) as [typeof client];
    onTestFinished(() => void socket.destroy());
    const unread = () =>
      unreadBytesOf(readTables(), port)(socket.remoteAddress ?? '', socket.remotePort ?? 0);
    expect(unread()).toBe(0);
    socket.write(Buffer.alloc(20_000_000));
    await eventually('the queue is full', () => unread() > 65_536);
    client.resume();
    await eventually('all is read', () => unread() === 0);
  },
);

const LINE =
  '   1: 0100007F:7530 0501A8C0:C350 01 00012345:00000000 01:00000014 00000000     0        0 1 1';

test('a connection is known by both of its ends', () => {
  const unread = unreadBytesOf([LINE], 30_000);
  expect(unread('192.168.1.5', 50_000)).toBe(0x12345);
  expect(unread('192.168.1.5', 50_001)).toBe(0);
  expect(unread('192.168.1.6', 50_000)).toBe(0);
  expect(unreadBytesOf([LINE], 30_001)('192.168.1.5', 50_000)).toBe(0);
});

test('the fuller one counts of two connections with the same remote end', () => {
  const other = LINE.replace('0100007F', '0200007F').replace('00012345', '00000000');
  for (const lines of [
    [LINE, other],
    [other, LINE],
  ])
    expect(unreadBytesOf(lines, 30_000)('192.168.1.5', 50_000)).toBe(0x12345);
});
