import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { machineFaults } from '../../../config/machine-checks.ts';
import { readSettings, SettingsError } from '../../../config/settings.ts';

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/${name}`, import.meta.url));
const TLS = { TLS_CERT: fixture('tls-cert.pem'), TLS_KEY: fixture('tls-key.pem') };
/** A program that is there, also where no media worker was built. */
const WORKER = { MEDIASOUP_WORKER_BIN: process.execPath };

function faultsOf(
  environment: Record<string, string>,
  interfaces?: Parameters<typeof machineFaults>[1],
): string[] {
  try {
    readSettings({ ...WORKER, ...environment }, (settings) => machineFaults(settings, interfaces));
    return [];
  } catch (fault) {
    if (fault instanceof SettingsError) return fault.faults;
    throw fault;
  }
}

test('addresses of this machine are accepted', () => {
  const networks = '10.0.0.0/8, 192.168.1.7,loopback,fd00::/8,10.0.0.0/255.0.0.0';
  expect(faultsOf({ ...TLS, TRUST_PROXY: networks, PIPE_LISTEN_IP: '127.0.0.2' })).toEqual([]);
  const any = { PIPE_LISTEN_IP: '0.0.0.0', PIPE_ANNOUNCED_ADDRESS: '203.0.113.7' };
  expect(faultsOf(any)).toEqual([]);
});

/** An IPv6 address with all its digits, in capitals. */
const written = (address: string) => {
  const [head = [], tail] = address.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = tail ? Array.from({ length: 8 - head.length - tail.length }, () => '0') : [];
  return [...head, ...zeros, ...(tail ?? [])]
    .map((group) => group.padStart(4, '0').toUpperCase())
    .join(':');
};

test('addresses of this machine are accepted in any spelling', () => {
  for (const address of ['::1', 'fd00::5', '2001:db8:0:1::a']) {
    const interfaces = { eth0: [{ address }] };
    expect(faultsOf({ RTC_LISTEN_IP: written(address) }, interfaces)).toEqual([]);
    const pipes = { RTC_LISTEN_IP: '127.0.0.1', PIPE_LISTEN_IP: written(address) };
    expect(faultsOf(pipes, interfaces)).toEqual([]);
  }
  const any = { RTC_LISTEN_IP: written('::'), RTC_ANNOUNCED_ADDRESS: '203.0.113.7' };
  expect(faultsOf(any)).toEqual([]);
  expect(faultsOf({ RTC_LISTEN_IP: written('2001:db8::7') })).toEqual([
    expect.stringContaining('2001:db8::7 is not an address of this machine'),
  ]);
});

test.each([
  '::',
  written('::'),
  '::1',
  written('fd00::5'),
  '::ffff:127.0.0.1',
  'fe80::1%eth0',
  'a.name',
  '172.17.0.1',
])('HOST=%s is left to the system', (HOST) => {
  const interfaces = { lo: [{ address: '127.0.0.1' }], eth0: [{ address: '10.0.0.5' }] };
  expect(faultsOf({ HOST, RTC_LISTEN_IP: '127.0.0.1' }, interfaces)).toEqual([]);
});

test('all faults are listed at once, also those that only the machine can tell', () => {
  const wrong = {
    PORT: 'abc',
    TRUST_PROXY: '10.0.0.0/8,the proxy',
    PIPE_LISTEN_IP: '203.0.113.7',
    RTC_LISTEN_IP: '203.0.113.8,127.0.0.1',
    TLS_CERT: '/nowhere/cert.pem',
    TLS_KEY: fileURLToPath(import.meta.url),
    MEDIASOUP_WORKER_BIN: '/nowhere/mediasoup-worker',
  };
  const faults = faultsOf(wrong);
  expect(new Set(faults.map((fault) => fault.split(/\W/)[0]))).toEqual(new Set(Object.keys(wrong)));
  expect(faults).toHaveLength(Object.keys(wrong).length);
  expect(faults.join('\n')).toContain('"the proxy"');
  expect(faults.join('\n')).toContain('203.0.113.7 is not an address of this machine');
});

test.each([
  '10.0.0.0/33',
  '::/129',
  '10.0.0.0/8/8',
  '10.0.0.0/x',
  'fd00::/255.0.0.0',
  '10.0.0.0/8,',
  '0.0.0.0/0',
  '10.0.0.0/255.0.255.0',
  '10.0.0.0/0.0.0.0',
])('TRUST_PROXY=%s is refused', (network) =>
  expect(faultsOf({ TRUST_PROXY: network })).toHaveLength(1),
);

test('a file without a key is refused by its name', () => {
  expect(faultsOf({ ...TLS, TLS_KEY: TLS.TLS_CERT })).toEqual([
    expect.stringMatching(/^TLS_KEY .* cannot be used/),
  ]);
});

/** A key that belongs to no certificate; that of the fixture is of an elliptic curve. */
const newKey = (type: 'ec' | 'rsa') =>
  type === 'ec'
    ? generateKeyPairSync(type, { namedCurve: 'P-256' }).privateKey
    : generateKeyPairSync(type, { modulusLength: 2048 }).privateKey;

test.each(['ec', 'rsa'] as const)(
  'the key of another certificate (%s) is refused',
  async (type) => {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-key-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, 'key.pem');
    const privateKey = newKey(type);
    await writeFile(file, privateKey.export({ type: 'pkcs8', format: 'pem' }));
    expect(faultsOf({ ...TLS, TLS_KEY: file })).toEqual([
      expect.stringMatching(/^TLS_KEY .* does not belong to TLS_CERT/),
    ]);
  },
);
