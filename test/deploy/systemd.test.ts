import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BootedMachine } from '../support/booted-machine.ts';
import { openDns } from '../support/dns-server.ts';
import { eventually, freeRtcPort } from '../support/gateway.ts';
import { commandsOf, fencedCommands } from '../support/page-commands.ts';
import { TestRedis } from '../support/redis.ts';
import { enterTwo, sendTone } from '../support/tone-through.ts';
import { untilTaken, useWebhooks, VISIT, visit } from '../support/use-webhooks.ts';

const PROJECT = join(import.meta.dirname, '../..');
const GATEWAY = 'partyline-gateway.service';
const WORKER = 'partyline-worker.service';
const RTC_PORT = freeRtcPort();
/** Exposure from which a unit fails, in tenths of systemd's ten. */
const MAX_EXPOSURE = 20;
/** Loopback address of the machine's DNS server. */
const DNS_ADDRESS = '127.0.0.153';

/** The commands of docs/operations/install.md for systemd: they install, start, list accounts, and make a usage worker. */
const COMMANDS = fencedCommands('install.md', 'systemd');
const START = COMMANDS.findIndex((command) => command.startsWith('systemctl enable'));
const INSTALL = COMMANDS.slice(0, START);
const [LIST = '', MAKE_WORKER_SETTINGS = '', START_WORKER = '', ...OTHERS] = COMMANDS.slice(
  START + 1,
);

/** The commands of docs/operations/upgrade.md for systemd, and the one for the worker. */
const UPGRADE = fencedCommands('upgrade.md').filter((command) => !command.includes('docker'));
const [RESTART_WORKER = ''] = commandsOf('upgrade.md').filter((command) =>
  command.startsWith('systemctl restart'),
);

/** The command of docs/operations/when-something-breaks.md for a gateway that hangs. */
const [KILL = ''] = commandsOf('when-something-breaks.md').filter((command) =>
  command.startsWith('systemctl kill'),
);

const { openHook, openNode } = useWebhooks();

let machine: BootedMachine;
let redis: TestRedis;
beforeAll(async () => {
  redis = await TestRedis.start();
  machine = await BootedMachine.boot(PROJECT);
  for (const command of [...INSTALL, MAKE_WORKER_SETTINGS]) runOfPage(command);
  writeEnvironment('gateway', { PORT: '0', RTC_PORT: String(RTC_PORT), MEDIA_WORKERS: '1' });
  writeEnvironment('worker', { REDIS_URL: redis.url });
  // The journal has no reader here.
  for (const unit of ['gateway', 'worker']) {
    machine.run('touch', `/var/log/${unit}`);
    const output = [
      `StandardOutput=append:/var/log/${unit}`,
      `StandardError=append:/var/log/${unit}`,
    ];
    write(
      `/etc/systemd/system/partyline-${unit}.service.d/log.conf`,
      ['[Service]', ...output].join('\n'),
    );
  }
  machine.run('systemctl', 'daemon-reload');
});
afterAll(async () => {
  await machine.close();
  await redis.kill();
});

/** Runs a command of the page in the project's folder. @returns its output */
const runOfPage = (command: string) =>
  machine.run('env', '-C', '/opt/partyline', 'sh', '-euc', command);
const write = (path: string, text: string) =>
  machine.run('sh', '-c', 'mkdir -p "$(dirname "$0")" && printf "%s\n" "$1" > "$0"', path, text);
const writeEnvironment = (unit: string, settings: Record<string, string>) =>
  write(
    `/etc/partyline/${unit}.env`,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
  );
const logOf = (unit: string) => machine.run('cat', `/var/log/${unit}`);

/** The line for machines that its last start has printed. */
async function gatewayReady(starts: number) {
  const lines = () => logOf('gateway').match(/^ready .*$/gm) ?? [];
  await eventually('the gateway is ready', () => lines().length === starts, 30_000);
  const ready = lines().at(-1)!.slice('ready '.length);
  return JSON.parse(ready) as { url: string; api_key: string };
}

test('the units are in order, and their user is made', () => {
  expect(machine.run('systemd-analyze', 'verify', GATEWAY, WORKER)).toBe('');
  expect(machine.run('id', '--user', '--name', 'partyline').trim()).toBe('partyline');
});

test.each([
  ['gateway', `RTC_PORT=${RTC_PORT}`],
  ['worker', 'REDIS_URL='],
])('installing again, as for an upgrade, keeps the settings of the %s', (unit, setting) => {
  const file = `/etc/partyline/${unit}.env`;
  const before = machine.run('cat', file);
  expect(before).toContain(setting);
  for (const command of [...INSTALL, MAKE_WORKER_SETTINGS]) runOfPage(command);
  expect(machine.run('cat', file)).toBe(before);
  expect(machine.run('stat', '-c', '%a %U %G', file).trim()).toBe('640 root partyline');
});

test.each([GATEWAY, WORKER])('%s is hardened', (unit) => {
  const options = ['--offline=true', '--no-pager', `--threshold=${MAX_EXPOSURE}`];
  const file = join(PROJECT, 'systemd', unit);
  const { status, stdout } = spawnSync('systemd-analyze', ['security', ...options, file]);
  expect(stdout.toString()).toMatch(/Overall exposure level for \S+: [01]\.\d OK/);
  expect(status).toBe(0);
});

describe('the gateway, with a Redis and a usage worker of its own', () => {
  test('takes clients, under the restrictions of its unit', async () => {
    runOfPage(COMMANDS[START]!);
    const { url, api_key: apiKey } = await gatewayReady(1);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    expect(machine.property(GATEWAY, 'UnitFileState')).toBe('enabled');
    expect(OTHERS).toEqual([]);
    expect(runOfPage(LIST)).toContain('Demo');
    const pair = await enterTwo([url, url], apiKey);
    const { sentHz, heardHz } = await sendTone(pair);
    expect(heardHz).toBe(sentHz);
    const { webrtc } = await pair.listener.ask(
      { type: 'join', room: 'b', media: 'webrtc' },
      'joined',
    );
    expect(webrtc?.send_transport.ice_candidates.length).toBeGreaterThan(0);
    await eventually('its usage worker runs', () =>
      logOf('gateway').includes('usage worker started'),
    );
    const pids = machine.pidsOf(GATEWAY);
    const programs = pids.map((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim());
    expect(programs.toSorted()).toEqual([
      'MainThread',
      'MainThread',
      'mediasoup-worke',
      'redis-server',
    ]);
    for (const pid of pids) {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      expect(status).toMatch(/^CapEff:\s0+$/m);
      expect(status).toMatch(/^NoNewPrivs:\s1$/m);
      expect(status).toMatch(/^Seccomp:\s2$/m);
      expect(status).not.toMatch(/^Uid:\s0\s/m);
    }
    await pair.speaker.close();
    await pair.listener.close();
  });

  test('is started again after kill -9, with the same accounts', async () => {
    const { api_key: before } = await gatewayReady(1);
    machine.run('systemctl', 'kill', '--kill-whom=main', '--signal=SIGKILL', GATEWAY);
    const { url, api_key: after } = await gatewayReady(2);
    expect(after).toBe(before);
    expect(machine.property(GATEWAY, 'NRestarts')).toBe('1');
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  });

  test('hangs, and is started again by the command for that', async () => {
    const { url: before, api_key: apiKey } = await gatewayReady(2);
    machine.run('systemctl', 'kill', '--kill-whom=main', '--signal=SIGSTOP', GATEWAY);
    const ask = fetch(`${before}/healthz`, { signal: AbortSignal.timeout(1000) });
    await expect(ask).rejects.toThrow('timeout');
    runOfPage(KILL);
    const { url, api_key: after } = await gatewayReady(3);
    expect(after).toBe(apiKey);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  });

  test('systemctl stop: it drains, browsers keep their media meanwhile, and it ends with 0', async () => {
    const { url, api_key: apiKey } = await gatewayReady(3);
    const { speaker, listener } = await enterTwo([url, url], apiKey);
    const { webrtc } = await listener.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
    const pids = machine.pidsOf(GATEWAY);
    machine.run('systemctl', 'stop', '--no-block', GATEWAY);
    await speaker.next('draining');
    await listener.next('draining');
    const request = { type: 'restart_ice', transport_id: webrtc?.send_transport.id };
    await listener.ask(request, 'ice_restarted');
    expect(machine.pidsOf(GATEWAY)).toEqual(pids);
    await Promise.all([speaker.close(), listener.close()]);
    await eventually('it has ended', () => machine.property(GATEWAY, 'ActiveState') === 'inactive');
    expect(machine.property(GATEWAY, 'Result')).toBe('success');
    expect(machine.property(GATEWAY, 'ExecMainStatus')).toBe('0');
    expect(logOf('gateway')).toMatch(/"by":"SIGTERM".*"msg":"drain began"/);
    expect(logOf('gateway')).not.toContain('media worker died');
  });

  test('an upgrade: the next version is in its place, with the same accounts', async () => {
    const { url: before, api_key: apiKey } = await gatewayReady(3);
    expect(await fetch(before).catch(() => undefined)).toBeUndefined();
    machine.run('ln', '-s', '/srv/partyline', '/opt/partyline-next');
    const [wait = '', ...commands] = UPGRADE.toReversed();
    machine.run('sh', '-euc', commands.toReversed().join('\n'));
    const { url, api_key: after } = await gatewayReady(4);
    machine.run('sh', '-euc', wait.replace('http://127.0.0.1:3000', url));
    expect(after).toBe(apiKey);
    expect(machine.run('sh', '-c', 'ls -d /opt/partyline*').trim().split('\n')).toEqual([
      '/opt/partyline',
      '/opt/partyline-before',
    ]);
    machine.run('systemctl', 'stop', GATEWAY);
  });
});

test('the usage worker starts, is started again after kill -9, and ends with 0', async () => {
  const starts = () => logOf('worker').match(/usage worker started/g)?.length;
  runOfPage(START_WORKER);
  await eventually('it runs', () => starts() === 1, 20_000);
  machine.run('systemctl', 'kill', '--signal=SIGKILL', WORKER);
  await eventually('it runs again', () => starts() === 2, 20_000);
  runOfPage(RESTART_WORKER);
  await eventually('it runs once more', () => starts() === 3, 20_000);
  machine.run('systemctl', 'stop', WORKER);
  expect(machine.property(WORKER, 'Result')).toBe('success');
  expect(machine.property(WORKER, 'ExecMainStatus')).toBe('0');
});

test('the usage worker, under the restrictions of its unit, reaches the host of a webhook that DNS knows', async () => {
  await openDns({ 'hooks.test': '127.0.0.1' }, { address: DNS_ADDRESS, port: 53 });
  write('/etc/resolv.conf', `nameserver ${DNS_ADDRESS}`);
  const { receiver, accounts, id } = await openHook(redis);
  const url = receiver.url.replace('127.0.0.1', 'hooks.test');
  await accounts.update(id, { webhook_url: url });
  machine.run('systemctl', 'start', WORKER);
  visit(await openNode(redis), id);
  await untilTaken(receiver, VISIT.length, 30_000);
  expect(receiver.received[0]!.headers.host).toBe(new URL(url).host);
  machine.run('systemctl', 'stop', WORKER);
});
