import { describe, expect, test } from 'vitest';
import { isReachable } from '../../../src/accounts/demo-account.ts';
import { announcementOf } from '../../../src/processes/announcement.ts';

const LOCAL = { HOST: '127.0.0.1', TRUST_PROXY: '', TLS_CERT: '' };
const demo = {
  account: { id: 7, name: 'Demo', email: 'demo@localhost', plan: 'pro', status: 'active' },
  apiKey: 'pl_secret',
  isNew: false,
  keyFile: '/data/demo-key',
} as const;
const url = 'http://127.0.0.1:3000';

const readyOf = (lines: string[]) =>
  JSON.parse(lines.at(-1)!.replace(/^ready /, '')) as Record<string, unknown>;

test.each([
  [{ HOST: 'localhost' }, false],
  [{ HOST: '::1' }, false],
  [{ HOST: '127.1.2.3' }, false],
  [{ HOST: '0.0.0.0' }, true],
  [{ HOST: '::' }, true],
  [{ HOST: '127.example.com' }, true],
  [{ TRUST_PROXY: 'loopback' }, true],
  [{ TLS_CERT: 'cert.pem' }, true],
])('with %j others can reach the gateway: %s', (settings, expected) => {
  expect(isReachable({ ...LOCAL, ...settings })).toBe(expected);
});

test('the key of the demo account is printed at each start that only this machine can reach', () => {
  const lines = announcementOf({ url, demo }, LOCAL);
  expect(lines).toContain(`Partyline is running. Open ${url}`);
  expect(lines).toContain('Demo account 7 (plan pro), key pl_secret');
  expect(lines).toContain(`Join a room at once: ${url}/#room=kitchen&key=pl_secret`);
  expect(readyOf(lines)).toEqual({ url, account_id: 7, api_key: 'pl_secret' });
});

test('where others reach the gateway it is printed when it is made, and later only where it is kept', () => {
  const open = { ...LOCAL, HOST: '0.0.0.0' };
  const first = announcementOf({ url, demo: { ...demo, isNew: true } }, open);
  expect(readyOf(first)).toEqual({ url, account_id: 7, api_key: 'pl_secret' });
  const later = announcementOf({ url, demo }, open);
  expect(later.join('\n')).not.toContain('pl_secret');
  expect(later).toContain('Demo account 7 (plan pro), key in /data/demo-key');
  expect(readyOf(later)).toEqual({ url, account_id: 7, key_file: '/data/demo-key' });
});

test('without a demo account the address alone is printed', () => {
  const lines = announcementOf({ url, demo: undefined }, LOCAL);
  expect(lines.join('\n')).not.toContain('Demo');
  expect(readyOf(lines)).toEqual({ url });
});

describe('for the local network', () => {
  const settings = { HOST: '::', TRUST_PROXY: '', TLS_CERT: 'cert.pem' };
  const lanUrl = 'https://192.168.1.5:3000';
  const gateway = { url: 'https://localhost:3000', demo };

  test('a person at a terminal sees the addresses, and at each start a link with the key and its QR code', () => {
    const lines = announcementOf(gateway, settings, { urls: [lanUrl], isTerminal: true });
    expect(lines).toContain(`Partyline is running. Open ${lanUrl}`);
    expect(lines).toContain('On this machine alone: https://localhost:3000');
    expect(lines).toContain(`On other devices in this network: ${lanUrl}`);
    expect(lines).toContain(`Join a room at once: ${lanUrl}/#room=kitchen&key=pl_secret`);
    expect(lines.filter((line) => /[█▀▄]/.test(line)).length).toBeGreaterThan(15);
    expect(readyOf(lines)).toMatchObject({ lan_urls: [lanUrl], api_key: 'pl_secret' });
  });

  test('a log has the key only when it is made, and no QR code', () => {
    const log = { urls: [lanUrl], isTerminal: false };
    const later = announcementOf(gateway, settings, log).join('\n');
    expect(later).not.toMatch(/pl_secret|█/);
    const isNew = announcementOf({ ...gateway, demo: { ...demo, isNew: true } }, settings, log);
    expect(isNew).toContain(`Join a room at once: ${lanUrl}/#room=kitchen&key=pl_secret`);
    expect(isNew.join('\n')).not.toContain('█');
  });

  test('a machine without a network is told of', () => {
    const lines = announcementOf(gateway, settings, { urls: [], isTerminal: false });
    expect(lines.join('\n')).toContain('No other device reaches this machine');
  });
});
