import * as fc from 'fast-check';
import { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { describe, expect, test, vi } from 'vitest';
import { spellsFixedParts } from '../../../src/http/fixed-path.ts';
import { RefusalLog } from '../../../src/http/refusal-log.ts';
import { UnauthenticatedConnections } from '../../../src/http/unauthenticated-connections.ts';
import { networkOf, prefixOf } from '../../../src/network-of.ts';

describe('networkOf()', () => {
  test.each([
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
    ['2001:db8::6', '2001:db8:0:0::/64'],
    ['2001:0db8:0000:0002::1', '2001:db8:0:2::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['64:ff9b::203.0.113.7', '64:ff9b:0:0::/64'],
    ['1:2:3:4:5:6:203.0.113.7', '1:2:3:4::/64'],
    ['', ''],
    ['unknown', 'unknown'],
  ])('of %s is %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});

test('networkOf() and prefixOf() of any text: a text that is no longer than it by more than a few characters, and its own network', () => {
  const group = fc.oneof(
    fc.string({ maxLength: 5 }),
    fc.nat(0xffff).map((n) => n.toString(16)),
  );
  const address = fc.oneof(
    fc.string({ maxLength: 300 }),
    fc.ipV4(),
    fc.ipV6(),
    fc.array(group, { maxLength: 12 }).map((groups) => groups.join(':')),
    fc.ipV4().map((text) => `::ffff:${text}`),
  );
  fc.assert(
    fc.property(address, (text) => {
      const network = networkOf(text);
      expect(network.length).toBeLessThanOrEqual(text.length + 24);
      expect(networkOf(network.replace('/64', ''))).toBe(network);
      expect(prefixOf(text).length).toBeLessThanOrEqual(text.length + 24);
    }),
    { seed: 20_261_124, numRuns: 1000 },
  );
});

describe('spellsFixedParts()', () => {
  test.each([
    ['/metrics', '/metrics'],
    ['/metrics?a=%20', '/metrics'],
    ['/api/admin/rooms/1/%2561', '/api/admin/rooms/:account_id/:room'],
    ['/api/admin/accounts/1/peers/%2F%2F/kick', '/api/admin/accounts/:id/peers/:peer/kick'],
    ['/admin/main.js', '/*'],
    ['/', '/*'],
    ['/admin/', '/*'],
  ])('is true of %s', (url, route) => {
    expect(spellsFixedParts(url, route)).toBe(true);
  });

  test.each([
    ['/%6detrics', '/metrics'],
    ['/metric%73?x', '/metrics'],
    ['/api/%61dmin/rooms/1/a', '/api/admin/rooms/:account_id/:room'],
    ['/api/admin/accounts/1/peers/a/%6bick', '/api/admin/accounts/:id/peers/:peer/kick'],
    ['/%61dmin/', '/*'],
    ['/x/../admin/', '/*'],
    ['/./admin/', '/*'],
    ['//admin/', '/*'],
    ['/x/..', '/*'],
    ['/admin\\', '/*'],
  ])('is false of %s', (url, route) => {
    expect(spellsFixedParts(url, route)).toBe(false);
  });
});

/** A connection as far as it is counted. */
const connectionFrom = (remoteAddress: string, remotePort: number) =>
  Object.defineProperties(new Socket(), {
    remoteAddress: { value: remoteAddress },
    remotePort: { value: remotePort },
  });

describe('UnauthenticatedConnections', () => {
  test('admits a limited number from an address, and one more for each that has authenticated or gone', () => {
    const connections = new UnauthenticatedConnections(2);
    const [first, second, third, fourth] = [1, 2, 3, 4].map((port) => connectionFrom('::1', port));
    expect(connections.arrive(first!, '::1')).toBe(true);
    expect(connections.arrive(second!, '::2')).toBe(true);
    expect(connections.arrive(third!, '::3')).toBe(false);
    expect(connections.arrive(connectionFrom('192.0.2.1', 1), '192.0.2.1')).toBe(true);
    connections.forget(first!);
    expect(connections.arrive(third!, '::3')).toBe(true);
    expect(connections.arrive(fourth!, '::4')).toBe(false);
    second!.emit('close');
    expect(connections.arrive(fourth!, '::4')).toBe(true);
    for (const connection of [first, third, fourth]) connection!.emit('close');
    expect(connections.size).toBe(1);
  });

  test("counts a proxy's connection for the client of its request", () => {
    const connections = new UnauthenticatedConnections(1);
    const [one, other] = [connectionFrom('10.0.0.1', 1), connectionFrom('10.0.0.1', 2)];
    expect(connections.arrive(one, '192.0.2.1')).toBe(true);
    expect(connections.arrive(other, '192.0.2.1')).toBe(false);
    expect(connections.arrive(one, '192.0.2.2')).toBe(true);
    expect(connections.arrive(other, '192.0.2.1')).toBe(true);
    for (let request = 0; request < 20; request += 1) {
      connections.keepUncounted(one);
      expect(connections.arrive(one, '192.0.2.3')).toBe(true);
    }
    expect(one.listenerCount('close')).toBeLessThan(3);
  });

  test("ends the connection that has been idle for longest, a proxy's too, and none that has authenticated", () => {
    const connections = new UnauthenticatedConnections(1);
    const [known, idle, busy, last] = [1, 2, 3, 4].map((port) => connectionFrom('10.0.0.1', port));
    for (const connection of [known, idle, busy, last]) connections.keepUncounted(connection!);
    connections.forget(known!);
    connections.arrive(busy!, '192.0.2.1');
    const ended = () => [known, idle, busy, last].map((connection) => connection!.destroyed);
    connections.endOldest();
    expect(ended()).toEqual([false, true, false, false]);
    connections.endOldest();
    expect(ended()).toEqual([false, true, false, true]);
    connections.endOldest();
    expect(connections.size).toBe(0);
    connections.endOldest();
    expect(known!.destroyed).toBe(false);
    expect(connections.arrive(known!, '192.0.2.1')).toBe(true);
  });
});

test('RefusalLog writes a line an interval for each network, after the first at once, and knows a bounded number of them', () => {
  vi.useFakeTimers();
  try {
    const lines: object[] = [];
    const log = { info: (line: object) => lines.push(line) } as unknown as FastifyBaseLogger;
    const refusals = new RefusalLog(log, 60_000);
    const refuse = (address: string, times: number) => {
      for (let count = 0; count < times; count += 1) refusals.add(address, 'unauthorized');
    };
    const newLines = () => lines.splice(0);
    refuse('192.0.2.1', 1000);
    refusals.add('192.0.2.1', '404');
    refusals.add('2001:db8::1', '401');
    expect(newLines()).toEqual([
      { address: '192.0.2.1', refused: { unauthorized: 1 } },
      { address: '2001:db8:0:0::/64', refused: { '401': 1 } },
    ]);
    vi.advanceTimersByTime(60_000);
    expect(newLines()).toEqual([
      { address: '192.0.2.1', refused: { unauthorized: 999, '404': 1 } },
    ]);
    for (let minute = 0; minute < 3; minute += 1) {
      refuse('192.0.2.1', 10);
      expect(newLines()).toEqual([]);
      vi.advanceTimersByTime(60_000);
      expect(newLines()).toEqual([{ address: '192.0.2.1', refused: { unauthorized: 10 } }]);
    }
    vi.advanceTimersByTime(60_000);
    expect(newLines()).toEqual([]);
    refuse('192.0.2.1', 1);
    expect(newLines()).toEqual([{ address: '192.0.2.1', refused: { unauthorized: 1 } }]);
    vi.advanceTimersByTime(60_000);
    for (let host = 0; host < 5000; host += 1)
      refusals.add(`10.0.${host >> 8}.${host & 255}`, '401');
    expect(newLines().length).toBe(1001);
    refusals.close();
    expect(newLines()).toEqual([{ address: 'others', refused: { '401': 3999 } }]);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test.each([
  ['203.0.113.77', '203.0.113.0/24'],
  ['::ffff:203.0.113.77', '203.0.113.0/24'],
  ['2001:db8:1:2:3::4', '2001:db8:1:2::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
])('the network of a client at %s is %s', (address, network) => {
  expect(prefixOf(address)).toBe(network);
});
