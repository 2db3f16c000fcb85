import { ADDRCONFIG, type LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type NetworkInterfaceInfo, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { HostNames } from '../../../src/webhooks/host-names.ts';
import { type DnsNames, openDns, REFUSED, SERVFAIL } from '../../support/dns-server.ts';

/** Names of a DNS server and a hosts file, and of a system that answers when it is told to. */
async function openNames(dns: DnsNames = {}, hosts = '') {
  const folder = mkdtempSync(join(tmpdir(), 'hosts-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const hostsFile = join(folder, 'hosts');
  writeFileSync(hostsFile, hosts);
  const server = await openDns(dns);
  const asked: { name: string; answer: (addresses: LookupAddress[]) => void }[] = [];
  let ended = 0;
  const names = new HostNames({
    hostsFile,
    newResolver: () => {
      const resolver = new Resolver({ timeout: 100, tries: 1 });
      resolver.setServers([server]);
      const count = () => {
        ended += 1;
      };
      return {
        resolve4: (name: string) => resolver.resolve4(name).finally(count),
        resolve6: (name: string) => resolver.resolve6(name).finally(count),
        cancel: () => resolver.cancel(),
      };
    },
    askSystem: (name) => new Promise((answer) => asked.push({ name, answer })),
  });
  const find = (name: string) =>
    new Promise<unknown>((resolve, reject) => {
      names.lookup(name, { all: true }, (fault, found) => (fault ? reject(fault) : resolve(found)));
    });
  return { find, asked, names, countQueries: () => ended };
}

const addressed = (address: string, family = 4) => ({ address, family });

test('a name of the hosts file has the addresses that stand there', async () => {
  const { find, asked } = await openNames(
    { 'hooks.test': '192.0.2.1' },
    '# 10.0.0.9 hooks.test\n10.0.0.1\thooks.test other # hooks\n\n::1 hooks.test\nwrong hooks.test\n',
  );
  expect(await find('hooks.test')).toEqual([addressed('10.0.0.1'), addressed('::1', 6)]);
  expect(await find('other')).toEqual([addressed('10.0.0.1')]);
  expect(asked).toEqual([]);
});

test('a name that DNS knows takes no thread', async () => {
  const { find, asked, names } = await openNames({ 'hooks.test': '192.0.2.1' });
  expect(await find('hooks.test')).toEqual([addressed('192.0.2.1')]);
  const one = await new Promise((resolve) => {
    names.lookup('hooks.test', {}, (fault, address, family) => resolve([fault, address, family]));
  });
  expect(one).toEqual([null, '192.0.2.1', 4]);
  expect(asked).toEqual([]);
});

test('names without an answer fail without a thread', async () => {
  const { find, asked } = await openNames({ 'dead.test': null });
  const lookups = await Promise.allSettled(Array.from({ length: 50 }, () => find('dead.test')));
  for (const lookup of lookups) {
    expect(lookup).toMatchObject({ status: 'rejected', reason: { code: 'ETIMEOUT' } });
  }
  expect(asked).toEqual([]);
});

test('a name that DNS does not know is looked up by the system, once at a time', async () => {
  const { find, asked, countQueries } = await openNames();
  const lookups = Array.from({ length: 50 }, () => find('worker.local'));
  await expect.poll(countQueries).toBe(100);
  expect(asked).toHaveLength(1);
  asked[0]!.answer([addressed('10.0.0.1')]);
  for (const lookup of lookups) expect(await lookup).toEqual([addressed('10.0.0.1')]);
  void find('worker.local');
  await expect.poll(() => asked.length).toBe(2);
});

test('names without a dot and of mDNS are looked up by the system if DNS refuses them', async () => {
  const refused = { worker: SERVFAIL, 'worker.local': REFUSED, 'hooks.test': SERVFAIL };
  const { find, asked } = await openNames(refused);
  for (const name of ['worker', 'worker.local']) {
    const lookup = find(name);
    await expect.poll(() => asked.at(-1)?.name).toBe(name);
    asked.at(-1)!.answer([addressed('10.0.0.1')]);
    expect(await lookup).toEqual([addressed('10.0.0.1')]);
  }
  await expect(find('hooks.test')).rejects.toThrow('ESERVFAIL');
  expect(asked).toHaveLength(2);
});

/** A lookup under way of a name whose DNS server never answers, in simulated time, with these addresses of type A. */
async function startUnanswered(resolve4?: () => Promise<string[]>) {
  const server = await openDns({ 'hooks.test': null });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const started = Promise.withResolvers<void>();
  const names = new HostNames({
    hostsFile: '',
    newResolver: () => {
      const resolver = new Resolver({ timeout: 60_000 });
      resolver.setServers([server]);
      started.resolve();
      return resolve4 ? Object.assign(resolver, { resolve4 }) : resolver;
    },
  });
  const settled = vi.fn<(fault: unknown, found: unknown) => void>();
  const lookup = new Promise<void>((resolve) => {
    names.lookup('hooks.test', { all: true }, (fault, found) => {
      settled(fault, found);
      resolve();
    });
  });
  await started.promise;
  return { settled, lookup };
}

test('a family that DNS drops holds up the addresses of the other only briefly', async () => {
  const { settled, lookup } = await startUnanswered(() => Promise.resolve(['127.0.0.1']));
  await vi.advanceTimersByTimeAsync(249);
  expect(settled).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  await lookup;
  expect(settled).toHaveBeenCalledExactlyOnceWith(null, [addressed('127.0.0.1')]);
  expect(vi.getTimerCount()).toBe(0);
});

test('a name that DNS does not answer is given up after 4 s', async () => {
  const { settled, lookup } = await startUnanswered();
  await vi.advanceTimersByTimeAsync(3999);
  expect(settled).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  await lookup;
  const fault: unknown = expect.objectContaining({ code: 'ECANCELLED' });
  expect(settled).toHaveBeenCalledExactlyOnceWith(fault, []);
  expect(vi.getTimerCount()).toBe(0);
});

type Address = Pick<NetworkInterfaceInfo, 'family' | 'internal'>;

/** Families that DNS is asked for, with these hints, by a host with these addresses. */
async function familiesAsked(hints: number, listAddresses: () => Address[]): Promise<number[]> {
  const families: number[] = [];
  const names = new HostNames({
    hostsFile: '',
    newResolver: () => ({
      resolve4: async () => (families.push(4), ['192.0.2.1']),
      resolve6: async () => (families.push(6), ['2001:db8::1']),
      cancel: () => {},
    }),
    networkInterfaces: () => ({ eth0: listAddresses() }),
  });
  await new Promise<void>((resolve) => {
    names.lookup('hooks.test', { hints }, () => resolve());
  });
  return families;
}

test('a host is asked only for the families that it has', async () => {
  const v4: Address = { family: 'IPv4', internal: false };
  const v6: Address = { family: 'IPv6', internal: false };
  const loopback: Address = { family: 'IPv6', internal: true };
  expect(await familiesAsked(ADDRCONFIG, () => [v4, loopback])).toEqual([4]);
  expect(await familiesAsked(ADDRCONFIG, () => [v6])).toEqual([6]);
  expect(await familiesAsked(ADDRCONFIG, () => [v4, v6])).toEqual([4, 6]);
  expect(await familiesAsked(ADDRCONFIG, () => [loopback])).toEqual([4, 6]);
  expect(await familiesAsked(0, () => [v4, loopback])).toEqual([4, 6]);
});

test('a host is asked for both families if the system does not tell its addresses', async () => {
  const refuse = () => {
    throw new Error('uv_interface_addresses returned Unknown system error 97');
  };
  expect(await familiesAsked(ADDRCONFIG, refuse)).toEqual([4, 6]);
});
