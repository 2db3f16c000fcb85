import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { GatewayProcess } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';
import { enterTwo, sendTone } from '../support/tone-through.ts';

/** The servers that docker/compose.yaml names are those with which the tests of this folder run. */

const PROJECT = join(import.meta.dirname, '../..');
const outputOf = (program: string, word: string) =>
  execFileSync(program, [word], { encoding: 'utf8' });

const opened = new AsyncDisposableStack();
afterAll(() => opened.disposeAsync());

test.each([
  ['redis', () => outputOf('redis-server', '--version')],
  ['proxy', () => outputOf('haproxy', '-v')],
  ['prometheus', () => outputOf('prometheus', '--version')],
])('%s of compose.yaml has the version that runs here', async (service, ask) => {
  const file = await readFile(join(PROJECT, 'docker/compose.yaml'), 'utf8');
  const { services } = parse(file, { merge: true }) as {
    services: Record<string, { image: string }>;
  };
  const [, tag = ''] = /:v?([\d.]+)$/.exec(services[service]!.image) ?? [];
  const [, version = ''] = /(?:version|v=) ?(\d+\.\d+\.\d+)/.exec(ask()) ?? [];
  expect(`${version}.`.startsWith(`${tag}.`)).toBe(true);
});

test.each([
  [
    'coturn',
    'docker/turnserver.conf',
    /coturn (\d+\.\d+)/,
    () => outputOf('turnserver', '--version'),
  ],
  ['Node', 'docker/Dockerfile', /^FROM node:(\d+\.\d+\.\d+)-/m, () => process.version],
] as const)('%s has the version that %s names', async (_name, path, named, ask) => {
  const [, version = ''] = named.exec(await readFile(join(PROJECT, path), 'utf8')) ?? [];
  expect(version).not.toBe('');
  const [, running = ''] = /^v?(\d+\.\d+\.\d+)/.exec(ask()) ?? [];
  expect(`${running}.`.startsWith(`${version}.`)).toBe(true);
});

test('Valkey does in place of Redis: two nodes share a room, with accounts, leases and a usage worker', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-valkey-'));
  opened.defer(() => rm(folder, { recursive: true }));
  const program = outputOf('which', 'valkey-server').trim();
  await symlink(program, join(folder, 'redis-server'));
  const { PATH } = process.env;
  process.env['PATH'] = [folder, PATH].join(delimiter);
  expect(outputOf('redis-server', '--version')).toMatch(/^Valkey server v=8\./);
  const redis = await TestRedis.start();
  process.env['PATH'] = PATH;
  opened.defer(() => redis.kill());
  const start = async (environment: Record<string, string>) => {
    const gateway = await GatewayProcess.start({ REDIS_URL: redis.url, ...environment });
    opened.defer(() => gateway.dispose());
    return gateway.ready();
  };
  const { url, api_key: apiKey } = await start({ USAGE_WORKERS: '1' });
  const other = await start({ USAGE_WORKERS: '0' });
  const { sentHz, heardHz } = await sendTone(await enterTwo([url, other.url], apiKey));
  expect(heardHz).toBe(sentHz);
});
