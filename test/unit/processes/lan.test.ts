import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { lanAddresses, serveLan, urlAt } from '../../../src/processes/lan.ts';
import { keepCertificate } from '../../../src/processes/lan-certificate.ts';

const DAY_MS = 86_400_000;

async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-lan-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

describe('keepCertificate()', () => {
  const names = ['localhost', '192.168.1.5', 'fd00::5'];

  test('makes a certificate for all names, which fits its key and which only its owner can read', async () => {
    const { certFile, keyFile } = await keepCertificate(await openFolder(), names);
    const cert = new X509Certificate(await readFile(certFile));
    expect(cert.checkPrivateKey(createPrivateKey(await readFile(keyFile)))).toBe(true);
    expect(cert.verify(cert.publicKey)).toBe(true);
    expect(cert.checkHost('localhost')).toBe('localhost');
    for (const address of ['192.168.1.5', 'fd00::5']) expect(cert.checkIP(address)).toBe(address);
    expect(cert.checkIP('192.168.1.6')).toBeUndefined();
    expect(cert.ca).toBe(false);
    const lifeMs = Date.parse(cert.validTo) - Date.parse(cert.validFrom);
    expect(lifeMs).toBe(825 * DAY_MS);
    for (const file of [certFile, keyFile]) expect((await stat(file)).mode & 0o077).toBe(0);
  });

  test('keeps it, under other names too, and replaces it a month before it expires', async () => {
    const folder = await openFolder();
    const { certFile } = await keepCertificate(folder, names);
    const first = await readFile(certFile, 'utf8');
    await keepCertificate(folder, ['10.0.0.1']);
    expect(await readFile(certFile, 'utf8')).toBe(first);
    const expiresMs = Date.parse(new X509Certificate(first).validTo);
    await keepCertificate(folder, names, expiresMs - 31 * DAY_MS);
    expect(await readFile(certFile, 'utf8')).toBe(first);
    await keepCertificate(folder, names, expiresMs - 29 * DAY_MS);
    expect(await readFile(certFile, 'utf8')).not.toBe(first);
  });

  test('replaces one that was made when the clock was ahead', async () => {
    const folder = await openFolder();
    const { certFile } = await keepCertificate(folder, names, Date.now() + 365 * DAY_MS);
    const ahead = await readFile(certFile, 'utf8');
    await keepCertificate(folder, names);
    const cert = new X509Certificate(await readFile(certFile));
    expect(cert.toString()).not.toBe(new X509Certificate(ahead).toString());
    expect(Date.parse(cert.validFrom)).toBeLessThanOrEqual(Date.now());
  });

  test.each(['certFile', 'keyFile'] as const)(
    'replaces both when %s is not what it was',
    async (broken) => {
      const folder = await openFolder();
      const files = await keepCertificate(folder, names);
      const other = await keepCertificate(await openFolder(), names);
      for (const content of ['', await readFile(other[broken])]) {
        await writeFile(files[broken], content);
        await keepCertificate(folder, names);
        const cert = new X509Certificate(await readFile(files.certFile));
        expect(cert.checkPrivateKey(createPrivateKey(await readFile(files.keyFile)))).toBe(true);
      }
    },
  );
});

describe('serveLan()', () => {
  test('adds the address and the certificate to what is set', async () => {
    const folder = await openFolder();
    const environment = await serveLan({ DATA_DIR: folder, PORT: '3001' });
    expect(environment).toEqual({
      DATA_DIR: folder,
      PORT: '3001',
      HOST: expect.stringMatching(/^(::|0\.0\.0\.0)$/),
      TLS_CERT: join(folder, 'lan-cert.pem'),
      TLS_KEY: join(folder, 'lan-key.pem'),
    });
  });

  test("leaves the operator's own address and certificate as they are", async () => {
    const own = { DATA_DIR: '/nowhere', HOST: '10.0.0.5', TLS_CERT: 'a.pem', TLS_KEY: 'b.pem' };
    expect(await serveLan(own)).toEqual(own);
  });
});

test('lanAddresses() has those that others reach, IPv4 first', () => {
  const address = (text: string, internal = false) => ({ address: text, internal });
  const interfaces = {
    lo: [address('127.0.0.1', true), address('::1', true)],
    eth0: [address('fd00::5'), address('192.168.1.5'), address('fe80::1')],
  };
  expect(lanAddresses('::', interfaces)).toEqual(['192.168.1.5', 'fd00::5']);
  expect(lanAddresses('0.0.0.0', interfaces)).toEqual(['192.168.1.5']);
  expect(lanAddresses('192.168.1.5', interfaces)).toEqual(['192.168.1.5']);
  expect(lanAddresses('127.0.0.1', interfaces)).toEqual([]);
  expect(lanAddresses('0:0:0:0:0:0:0:0', interfaces)).toEqual(['192.168.1.5', 'fd00::5']);
  expect(lanAddresses('FD00:0::05', interfaces)).toEqual(['fd00::5']);
});

test('urlAt() puts another address into a URL', () => {
  expect(urlAt('fd00::5', 'https://localhost:3000')).toBe('https://[fd00::5]:3000');
  expect(urlAt('10.0.0.5', 'https://localhost')).toBe('https://10.0.0.5');
});
