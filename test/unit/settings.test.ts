import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readSettings, SettingsError, settingsTable } from '../../config/settings.ts';

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
    const faults = faultsOf(wrong).map((fault) => fault.split(' ')[0]);
    expect(new Set(faults)).toEqual(new Set(Object.keys(wrong)));
  });

  test('shares the cores out to the processes, and leaves a port to each of their media workers', () => {
    expect(readSettings({ PROCESSES: '64' })).toMatchObject({ MEDIA_WORKERS: 1, MIX_THREADS: 0 });
    const ports = { PROCESSES: '4', MEDIA_WORKERS: '2' };
    expect(readSettings({ ...ports, RTC_PORT: '65528' })).toMatchObject({ MEDIA_WORKERS: 2 });
    expect(() => readSettings({ ...ports, RTC_PORT: '65529' })).toThrow('RTC_PORT');
    expect(() => readSettings({ PROCESSES: '0' })).toThrow('PROCESSES');
  });

  test('refuses to listen on every address without one to announce', () => {
    expect(() => readSettings({ RTC_LISTEN_IP: '0.0.0.0' })).toThrow('RTC_ANNOUNCED_ADDRESS');
  });
});

test('docs/settings.md shows the settings as they are', () => {
  const page = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8');
  expect(page).toContain(settingsTable());
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
