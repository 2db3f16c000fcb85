import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ownAddresses, pipeAddressesOf, rtcAddressesOf } from '../../../config/listen-addresses.ts';
import { readSettings, SettingsError, settingsTable } from '../../../config/settings.ts';

describe('readSettings()', () => {
  test('gives every default when nothing is set', () => {
    expect(readSettings({})).toMatchObject({ HOST: '127.0.0.1', PORT: 3000, REDIS_URL: '' });
  });

  test('takes what is set, in its own type; an empty variable is not set', () => {
    expect(readSettings({ PORT: '8080', DEMO_ACCOUNT: 'false', LOG_LEVEL: '' })).toMatchObject({
      PORT: 8080,
      DEMO_ACCOUNT: false,
      LOG_LEVEL: 'info',
    });
  });

  test('lists all faults at once, each by its name', () => {
    const wrong = {
      PORT: 'abc',
      MEDIA_WORKERS: '0',
      OPUS_COMPLEXITY: '1.5',
      REDIS_URL: 'http://x',
      RTC_LISTEN_IP: 'nowhere',
      LOG_LEVEL: 'loud',
      DEMO_ACCOUNT: 'yes',
      CLUSTER_KEY: 'short',
      OPERATOR_KEY: 'short',
      DRAIN_MS: '-1',
      TURN_URLS: 'http://x',
      PIPE_PORT_MIN: '30000',
      TLS_CERT: 'a file',
    };
    const faults = faultsOf(wrong).map((fault) => fault.split(/\W/)[0]);
    expect(new Set(faults)).toEqual(new Set(Object.keys(wrong)));
  });

  test('says what a setting of two values takes', () => {
    for (const value of ['no', '0', 'TRUE']) {
      expect(faultsOf({ DEMO_ACCOUNT: value })).toEqual([
        expect.stringMatching(/^DEMO_ACCOUNT must be true or false \(.*\)\.$/),
      ]);
    }
  });

  test('shares the cores out to the processes, and leaves a port to each of their media workers', () => {
    expect(readSettings({ PROCESSES: '64' })).toMatchObject({ MEDIA_WORKERS: 1, MIX_THREADS: 0 });
    const ports = { PROCESSES: '4', MEDIA_WORKERS: '2' };
    expect(readSettings({ ...ports, RTC_PORT: '65528' })).toMatchObject({ MEDIA_WORKERS: 2 });
    expect(() => readSettings({ ...ports, RTC_PORT: '65529' })).toThrow('RTC_PORT');
    expect(() => readSettings({ PROCESSES: '0' })).toThrow('PROCESSES');
  });

  test('refuses to listen on every address without one to announce', () => {
    for (const ip of ['0.0.0.0', '::', '10.0.0.5,::']) {
      expect(() => readSettings({ RTC_LISTEN_IP: ip })).toThrow('RTC_ANNOUNCED_ADDRESS');
    }
    expect(() => readSettings({ PIPE_LISTEN_IP: '::' })).toThrow('PIPE_ANNOUNCED_ADDRESS');
    const RTC_ANNOUNCED_ADDRESS = '203.0.113.7';
    expect(() => readSettings({ RTC_LISTEN_IP: '0.0.0.0', RTC_ANNOUNCED_ADDRESS })).not.toThrow();
  });

  test.each([
    '10.0.0.5,',
    'x',
    '10.0.0.5=',
    '10.0.0.5=a=b',
    '10.0.0.5=a b',
    '10.0.0.5,10.0.0.5',
    'fd00::5,FD00:0:0::5',
    'fe80::5%eth0,fe80:0::5%eth0',
    Array.from({ length: 9 }, (_, index) => `10.0.0.${index}`).join(),
  ])('RTC_LISTEN_IP=%s is refused', (list) => {
    expect(faultsOf({ RTC_LISTEN_IP: list })).toEqual([expect.stringContaining('RTC_LISTEN_IP')]);
  });

  test.each(['10.0.0.5,', 'x', '10.0.0.5,10.0.0.6', 'fd00::5,10.0.0.5,fd00::6'])(
    'PIPE_LISTEN_IP=%s is refused',
    (list) => {
      const faults = faultsOf({ PIPE_LISTEN_IP: list });
      expect(faults).toEqual([expect.stringContaining('PIPE_LISTEN_IP')]);
    },
  );

  test.each([
    ['10.0.0.5=node1.example', ''],
    ['fd00::5,10.0.0.5=node1', ''],
    ['10.0.0.5', 'node1.example'],
    ['0.0.0.0', 'node1.example'],
  ])('PIPE_LISTEN_IP=%s announced as "%s": a host name is refused', (list, announced) => {
    const faults = faultsOf({ PIPE_LISTEN_IP: list, PIPE_ANNOUNCED_ADDRESS: announced });
    expect(faults).toEqual([expect.stringMatching(/^PIPE_\w+: "node1.*not an IPv4 or IPv6/)]);
  });

  test('takes one address of each family for pipes, each with what is announced in its place', () => {
    const read = (PIPE_LISTEN_IP: string, PIPE_ANNOUNCED_ADDRESS = '') =>
      pipeAddressesOf(readSettings({ PIPE_LISTEN_IP, PIPE_ANNOUNCED_ADDRESS }));
    const both = [{ ip: '10.0.0.5', announced: '203.0.113.7' }, { ip: 'fd00::5' }];
    expect(read('10.0.0.5=203.0.113.7, fd00::5')).toEqual(both);
    expect(read('0.0.0.0', '203.0.113.7')).toEqual([{ ip: '0.0.0.0', announced: '203.0.113.7' }]);
    expect(() => read('10.0.0.5,fd00::5', '203.0.113.7')).toThrow('With several addresses');
  });

  test('refuses one address to announce for several', () => {
    const RTC_ANNOUNCED_ADDRESS = '203.0.113.7';
    const RTC_LISTEN_IP = '10.0.0.5,fd00::5';
    expect(() => readSettings({ RTC_LISTEN_IP, RTC_ANNOUNCED_ADDRESS })).toThrow(
      'With several addresses',
    );
  });
});

const TURN_SECRET = 'a secret of coturn';

test.each([
  'turn:turn.example.com',
  'turn:turn.example.com:3478',
  'turns:turn.example.com:443?transport=tcp,turn:203.0.113.7:65535?transport=udp',
  'turn:[2001:db8::7]:3478',
  'turn:turn.example.com, turn:other.example.com',
])('TURN_URLS=%s is taken', (urls) => {
  expect(faultsOf({ TURN_URLS: urls, TURN_SECRET })).toEqual([]);
});

test.each([
  'turn://turn.example.com:3478',
  'turns:turn.example.com:443?transport=tls',
  'turn:turn.example.com:70000',
  'turn:turn.example.com:0',
  'turn:turn.example.com,',
])('TURN_URLS=%s, which browsers refuse, is refused', (urls) => {
  expect(faultsOf({ TURN_URLS: urls, TURN_SECRET })[0]).toMatch(/^TURN_URLS /);
});

describe.each([
  '203.0.113.7:30000',
  'https://gw.example',
  '203.0.113.7,2001:db8::7',
  '203.0.113.700',
  '203.0.113',
])('RTC_ANNOUNCED_ADDRESS=%s', (announced) => {
  test.each(['', '10.0.0.5', '0.0.0.0', '10.0.0.5,fd00::5'])(
    'is refused with RTC_LISTEN_IP=%s',
    (list) => {
      const faults = faultsOf({ RTC_LISTEN_IP: list, RTC_ANNOUNCED_ADDRESS: announced });
      const expected = `RTC_ANNOUNCED_ADDRESS: "${announced}" is not an address`;
      expect(faults[0]).toContain(expected);
    },
  );
});

test.each(['203.0.113.7', '2001:db8::7', 'gw.example', 'grüße.example'])(
  'RTC_ANNOUNCED_ADDRESS=%s is taken, with one address to listen on or none',
  (announced) => {
    for (const list of ['', '10.0.0.5']) {
      const environment = { RTC_LISTEN_IP: list, RTC_ANNOUNCED_ADDRESS: announced };
      expect(faultsOf(environment)).toEqual([]);
    }
  },
);

describe('addresses of WebRTC', () => {
  const settings = { RTC_ANNOUNCED_ADDRESS: '', RTC_TCP: true };

  test('are those that are set, each with what is announced in its place', () => {
    const RTC_LISTEN_IP = '10.0.0.5=203.0.113.7, fd00::5';
    expect(rtcAddressesOf({ ...settings, RTC_LISTEN_IP })).toEqual([
      { ip: '10.0.0.5', announced: '203.0.113.7', takesTcp: true, isSet: true },
      { ip: 'fd00::5', takesTcp: true, isSet: true },
    ]);
  });

  test('are written as the system writes them, each with its zone', () => {
    const RTC_LISTEN_IP = '2A01:04F8:0:0:0:0:0:1, ::FFFF:7F00:1, FE80::1%eth0,fe80::1%ETH0';
    expect(rtcAddressesOf({ ...settings, RTC_LISTEN_IP }).map(({ ip }) => ip)).toEqual([
      '2a01:4f8::1',
      '::ffff:127.0.0.1',
      'fe80::1%eth0',
      'fe80::1%ETH0',
    ]);
  });

  test('are all that there are, if only what is announced is set', () => {
    const RTC_ANNOUNCED_ADDRESS = '203.0.113.7';
    expect(rtcAddressesOf({ ...settings, RTC_LISTEN_IP: '', RTC_ANNOUNCED_ADDRESS })).toEqual([
      { ip: '0.0.0.0', announced: '203.0.113.7', takesTcp: true, isSet: true },
    ]);
  });

  test('are, if none is set, loopback first and then what others can reach, at most eight', () => {
    const at = (address: string, internal = false) => ({ address, internal });
    const interfaces = {
      lo: [at('127.0.0.1', true), at('::1', true)],
      eth0: [at('192.0.2.2'), at('2001:db8::2'), at('fe80::1'), at('FEBF::1')],
      none: undefined,
    };
    const ips = ownAddresses(interfaces).map(({ ip }) => ip);
    expect(ips).toEqual(['127.0.0.1', '192.0.2.2', '2001:db8::2']);
    const many = Array.from({ length: 20 }, (_, index) => at(`10.0.0.${index}`));
    expect(ownAddresses({ many })).toHaveLength(8);
  });
});

test.each(['a key with some spaces', 'schlüssel-des-betreibers', 'a-tab\tin-the-middle'])(
  'OPERATOR_KEY=%s, which no header can carry as one word, is refused',
  (key) => {
    expect(faultsOf({ OPERATOR_KEY: key })).toEqual([expect.stringMatching(/^OPERATOR_KEY /)]);
  },
);

test.each([
  'redis://:pa/secret@redis.example:6379',
  'redis://:pa#secret@redis.example:6379',
  'rediss://:pa?secret@redis.example:6379',
  'redis://bob/x:secret@redis.example',
  'redis://bob#x:secret@redis.example',
  'redis://:50%secret@redis.example',
  'redis://redis.example/secret',
])('REDIS_URL=%s is refused, without a word of its password', (url) => {
  const faults = faultsOf({ REDIS_URL: url });
  expect(faults).toEqual([expect.stringMatching(/^REDIS_URL .*percent-encoded/)]);
  expect(faults[0]).not.toContain('secret');
});

test.each([
  'redis://redis',
  'redis://:pa%2Fss%23@127.0.0.1:6379/2',
  'rediss://bob:p:w@[2001:db8::7]:6380/',
  'unix:///run/redis.sock',
])('REDIS_URL=%s is taken', (url) => {
  expect(faultsOf({ REDIS_URL: url })).toEqual([]);
});

test('docs/settings.md shows the settings as they are', () => {
  const page = readFileSync(new URL('../../../docs/settings.md', import.meta.url), 'utf8');
  expect(page).toContain(settingsTable());
});

test('the meaning of a setting can be read without that of the one before', () => {
  const rows = settingsTable().split('\n').slice(2);
  expect(rows.length).toBeGreaterThan(40);
  expect(rows.filter((row) => /\| (?:The same|Its?|They|Their)\b[^|]*\|$/.test(row))).toEqual([]);
});

function faultsOf(environment: Record<string, string>): string[] {
  try {
    readSettings(environment);
    return [];
  } catch (fault) {
    if (fault instanceof SettingsError) return fault.faults;
    throw fault;
  }
}
