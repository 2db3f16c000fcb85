import { createSocket } from 'node:dgram';
import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { HostNames } from '../../../src/webhooks/host-names.ts';

const NXDOMAIN = 3;
const A = 1;

/** A DNS server: addresses of type A by name, null for names without an answer; others do not exist. */
async function openDns(names: Record<string, string | null>): Promise<string> {
  const server = createSocket('udp4');
  server.on('message', (query, { port, address }) => {
    const nameEnd = query.indexOf(0, 12);
    const labels: string[] = [];
    for (let at = 12; at < nameEnd; at += query[at]! + 1) {
      labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!));
    }
    const name = labels.join('.');
    const found = names[name];
    if (found === null) return;
    const header = Buffer.from(query.subarray(0, nameEnd + 5));
    header[2] = 0x81;
    header[3] = 0x80 | (found === undefined ? NXDOMAIN : 0);
    const hasAnswer = found !== undefined && query.readUInt16BE(nameEnd + 1) === A;
    header.writeUInt16BE(hasAnswer ? 1 : 0, 6);
    header.writeUInt16BE(0, 10);
    const record = [0xc0, 12, 0, A, 0, 1, 0, 0, 0, 60, 0, 4];
    const answer = hasAnswer ? [...record, ...found.split('.').map(Number)] : [];
    server.send(Buffer.concat([header, Buffer.from(answer)]), port, address);
  });
  server.bind(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `127.0.0.1:${server.address().port}`;
}

/** Names of a DNS server and a hosts file, and of a system that answers when it is told to. */
async function openNames(dns: Record<string, string | null> = {}, hosts = '') {
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
      } as Pick<Resolver, 'resolve4' | 'resolve6'>;
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
  const lookups = Array.from({ length: 50 }, () => find('dead.test'));
  for (const lookup of lookups) await expect(lookup).rejects.toThrow('ETIMEOUT');
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
