import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually, freeRtcPort } from '../support/gateway.ts';
import { Image, type ImageConfig } from '../support/image.ts';
import { commandsOf } from '../support/page-commands.ts';
import { TestRedis } from '../support/redis.ts';
import { enterTwo, sendTone } from '../support/tone-through.ts';

/** docker/Dockerfile, built by a real builder, and what it makes, run beside a real Redis. */

/** A busy machine may lose a round of the canary. */
const PATIENCE = { timeout: 60_000, interval: 0 };
const BUILD_TIMEOUT_MS = 1_200_000;
const OPERATOR_KEY = 'operator-key-of-the-tests';
/** The base image has 270 MB of it. */
const MAX_IMAGE_MB = 420;
const MAX_APP_MB = 130;
const MAX_CANARY_APP_MB = 60;
const USER_ID = 1000;
/** As HEALTHCHECK has it. */
const HEALTH_TIMEOUT_MS = 3000;

let image: Image;
let config: ImageConfig;
let container: string;
let root: string;
let redis: TestRedis;
beforeAll(async () => {
  image = await Image.build();
  config = image.config();
  container = image.newContainer();
  root = image.mount(container);
  redis = await TestRedis.start();
}, BUILD_TIMEOUT_MS);
afterAll(async () => {
  await redis.kill();
  await image.remove();
});

const running: ChildProcess[] = [];
afterEach(async () => {
  for (const child of running.splice(0)) {
    if (child.exitCode === null)
      for (const pid of pidsBelow(child.pid!)) process.kill(pid, 'SIGKILL');
  }
});

const megabytesOf = (path: string) =>
  Number(execFileSync('du', ['-sm', path], { encoding: 'utf8' }).split('\t')[0]);

/** Processes below one, itself first. */
function pidsBelow(pid: number): number[] {
  // The kernel lists children by the thread that has made them.
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean),
  );
  return [pid, ...children.flatMap((child) => pidsBelow(Number(child)))];
}

/** Starts a command, and finds the process that it becomes in the end: the first one of Node. */
async function startInside(command: string[]) {
  const child = spawn(command[0]!, command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
  running.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const nodePid = () =>
    pidsBelow(child.pid!).find((pid) =>
      /^([^\0]*\/)?node\0/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8')),
    );
  return { exited, nodePid, output: () => output };
}

type Inside = Awaited<ReturnType<typeof startInside>>;

/** Environment of a gateway in a container on this machine's network. */
const settingsOn = (port: number) => ({
  PORT: String(port),
  REDIS_URL: redis.url,
  RTC_PORT: String(freeRtcPort()),
  MEDIA_WORKERS: '1',
  DRAIN_MS: '600000',
  OPERATOR_KEY,
});

const inContainer = (environment: Record<string, string>, command: string[]) =>
  image.runCommand(container, environment, command);

/** A command that runs another as the first process of a container without any rights, whose root cannot be written. */
function alone(settings: Record<string, string>, command: string[]): string[] {
  const given = config.Env.map((variable) => variable.split('=') as [string, string]);
  const environment = Object.entries({ ...Object.fromEntries(given), ...settings });
  const files = ['--ro-bind', root, '/', '--proc', '/proc', '--dev', '/dev'];
  const user = ['--unshare-user', '--uid', `${USER_ID}`, '--gid', `${USER_ID}`];
  const process1 = ['--unshare-pid', '--as-pid-1', '--unshare-ipc', '--cap-drop', 'ALL'];
  const variables = environment.flatMap(([name, value]) => ['--setenv', name, value]);
  const place = ['--chdir', config.WorkingDir, '--clearenv', ...variables];
  return ['bwrap', ...files, ...user, ...process1, ...place, '--', ...command];
}

const exitCodeOf = ([program = '', ...words]: string[], timeout?: number) =>
  spawnSync(program, words, { timeout }).status;

/** Makes an account by the image's command. @returns its key */
function createAccount(settings: Record<string, string>): string {
  const create = 'create --name Ada --email a@example.com --plan pro'.split(' ');
  const command = inContainer(settings, ['node', 'src/accounts-cli.ts', ...create]);
  const [program = '', ...words] = command;
  const [apiKey = ''] = /pl_[\w-]+/.exec(execFileSync(program, words, { encoding: 'utf8' })) ?? [];
  return apiKey;
}

const readiness = (url: string) =>
  fetch(`${url}/readyz`).then(
    ({ status }) => status,
    () => undefined,
  );

describe('the image', () => {
  test('runs as a user without rights, who owns nothing in it', () => {
    expect(config.User).toBe('node');
    const owned = execFileSync('find', [join(root, 'app'), '-uid', String(USER_ID)]);
    expect(owned.toString()).toBe('');
    const writable = execFileSync('find', [join(root, 'app'), '-perm', '-o+w', '!', '-type', 'l']);
    expect(writable.toString()).toBe('');
    const closed = execFileSync('find', [
      join(root, 'app'),
      '!',
      '-perm',
      '-o+r',
      '!',
      '-type',
      'l',
    ]);
    expect(closed.toString()).toBe('');
    // Packages of the workspace are not in it.
    const dangling = execFileSync('find', [join(root, 'app'), '-xtype', 'l']);
    expect(dangling.toString()).toBe('');
  });

  test('has one folder that its user may write, DATA_DIR, which nobody else can read', () => {
    expect(config.Env).toContain('DATA_DIR=/data');
    const write = [
      'sh',
      '-c',
      'touch "$DATA_DIR/a" && stat -c "%a %u" "$DATA_DIR" && rm "$DATA_DIR/a"',
    ];
    const [program = '', ...words] = inContainer({}, write);
    expect(execFileSync(program, words, { encoding: 'utf8' }).trim()).toBe(`700 ${USER_ID}`);
  });

  test('is small, without tools to build with or packages to develop with', () => {
    expect(megabytesOf(root)).toBeLessThan(MAX_IMAGE_MB);
    expect(megabytesOf(join(root, 'app'))).toBeLessThan(MAX_APP_MB);
    const programs = ['bin', 'usr/bin', 'usr/local/bin'].flatMap((folder) =>
      readdirSync(join(root, folder)),
    );
    const tools = ['gcc', 'g++', 'cc', 'make', 'python3', 'git', 'meson', 'ninja', 'redis-server'];
    expect(tools.filter((tool) => programs.includes(tool))).toEqual([]);
    const { devDependencies } = JSON.parse(
      readFileSync(join(root, 'app/package.json'), 'utf8'),
    ) as {
      devDependencies: Record<string, string>;
    };
    const packages = ['typescript', 'vitest', 'oxlint', 'playwright-core', 'node', 'werift'];
    expect(packages.filter((name) => !(name in devDependencies))).toEqual([]);
    expect(packages.filter((name) => existsSync(join(root, 'app/node_modules', name)))).toEqual([]);
    expect(readdirSync(join(root, 'app')).toSorted()).toEqual([
      'build',
      'config',
      'docker',
      'node_modules',
      'package.json',
      'src',
      'workers',
    ]);
  });
});

describe('a container', () => {
  test('serves the page and a tone; its health check tells; SIGTERM drains it, and it ends with 0', async () => {
    const port = freeRtcPort();
    const settings = settingsOn(port);
    const url = `http://127.0.0.1:${port}`;
    const [kind, ...healthCheck] = config.Healthcheck.Test;
    expect(kind).toBe('CMD');
    const isHealthy = () => exitCodeOf(inContainer(settings, healthCheck)) === 0;
    expect(isHealthy()).toBe(false);
    const gateway = await startInside(inContainer(settings, config.Cmd));
    await eventually('it is ready', async () => (await readiness(url)) === 200, 30_000);
    expect(isHealthy()).toBe(true);
    const page = await fetch(url);
    expect([page.status, page.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('html'),
    ]);
    const apiKey = createAccount(settings);
    const pair = await enterTwo([url, url], apiKey);
    const { sentHz, heardHz } = await sendTone(pair);
    expect(heardHz).toBe(sentHz);
    const pid = gateway.nodePid()!;
    expect(readFileSync(`/proc/${pid}/status`, 'utf8')).toMatch(
      new RegExp(`^Uid:\\s${USER_ID}\\s`, 'm'),
    );
    process.kill(pid, 'SIGTERM');
    await pair.listener.next('draining');
    await Promise.all([pair.listener.close(), pair.speaker.close()]);
    expect(await gateway.exited).toBe(0);
    expect(gateway.output()).toContain('"msg":"drain ended"');
  });

  test('is a usage worker as well, with the same health check', async () => {
    const settings = { REDIS_URL: redis.url, WORKER_PORT: String(freeRtcPort()) };
    const isHealthy = () =>
      exitCodeOf(inContainer(settings, config.Healthcheck.Test.slice(1))) === 0;
    expect(isHealthy()).toBe(false);
    const worker = await startInside(inContainer(settings, ['node', 'workers/usage.ts']));
    await eventually('it is healthy', isHealthy, 30_000);
    process.kill(worker.nodePid()!, 'SIGTERM');
    expect(await worker.exited).toBe(0);
  });

  test('is healthy by what it runs alone, also where gateway and usage worker share a network and an environment', async () => {
    const settings = { ...settingsOn(freeRtcPort()), WORKER_PORT: String(freeRtcPort()) };
    const gateway = await startInside(alone(settings, config.Cmd));
    const worker = await startInside(alone(settings, ['node', 'workers/usage.ts']));
    const environment = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
    const variables = ['env', '-i', ...config.Env, ...environment];
    const isHealthy = ({ nodePid }: Inside) => {
      const enter = ['nsenter', '--target', `${nodePid()}`, '--mount', '--pid'];
      const place = [`--wd=/proc/${nodePid()}/cwd`, ...variables];
      const words = [...enter, ...place, ...config.Healthcheck.Test.slice(1)];
      return exitCodeOf(words, HEALTH_TIMEOUT_MS) === 0;
    };
    const both = () => [isHealthy(gateway), isHealthy(worker)];
    await expect.poll(both, { timeout: 30_000 }).toEqual([true, true]);
    process.kill(worker.nodePid()!, 'SIGSTOP');
    expect(both()).toEqual([true, false]);
    process.kill(worker.nodePid()!, 'SIGCONT');
    process.kill(gateway.nodePid()!, 'SIGSTOP');
    expect(both()).toEqual([false, true]);
    process.kill(gateway.nodePid()!, 'SIGCONT');
    process.kill(gateway.nodePid()!, 'SIGTERM');
    expect(await gateway.exited).toBe(0);
    expect(isHealthy(worker)).toBe(true);
  });

  test('needs no rights, and no file that it may write; docker/drain.mjs drains its first process, and waits for its end', async () => {
    const port = freeRtcPort();
    const settings = settingsOn(port);
    const url = `http://127.0.0.1:${port}`;
    const gateway = await startInside(alone(settings, config.Cmd));
    await eventually('it is ready', async () => (await readiness(url)) === 200, 30_000);
    const status = readFileSync(`/proc/${gateway.nodePid()}/status`, 'utf8');
    expect(status).toMatch(/^CapEff:\s0+$/m);
    expect(status).toMatch(/^NSpid:.*\s1$/m);
    const headers = { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' };
    const account = { name: 'Bob', email: 'b@example.com', plan: 'pro' };
    const created = await fetch(`${url}/api/admin/accounts`, {
      method: 'POST',
      headers,
      body: JSON.stringify(account),
    });
    const { api_key: apiKey } = (await created.json()) as { api_key: string };
    const { speaker, listener: client } = await enterTwo([url, url], apiKey);
    const { sentHz, heardHz } = await sendTone({ speaker, listener: client });
    expect(heardHz).toBe(sentHz);
    await speaker.close();
    await client.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
    const inPod = 'kubectl --namespace partyline exec -it deploy/gateway -- ';
    const [command = ''] = commandsOf('accounts.md').filter((each) => each.startsWith(inPod));
    const create = ['sh', '-euc', command.slice(inPod.length)];
    expect(exitCodeOf(alone(settings, create))).toBe(0);
    const drain = await startInside(inContainer(settings, ['node', 'docker/drain.mjs']));
    await client.next('draining');
    await client.close();
    expect(await gateway.exited).toBe(0);
    expect(await drain.exited).toBe(0);
    expect(drain.output()).toBe('');
  });
});

describe('the image of the canary', () => {
  beforeAll(() => image.add('packages/canary/Dockerfile', 'partyline-canary'), BUILD_TIMEOUT_MS);

  test('has the canary and what it needs, and runs as a user without rights', () => {
    const { User: user } = image.config('partyline-canary');
    expect(user).toBe('node');
    const app = join(image.mount(image.newContainer('partyline-canary')), 'app');
    expect(megabytesOf(app)).toBeLessThan(MAX_CANARY_APP_MB);
    expect(existsSync(join(app, 'src'))).toBe(false);
    const packages = ['mediasoup', 'vitest', 'typescript', '@roamhq/wrtc'];
    expect(packages.filter((name) => existsSync(join(app, 'node_modules', name)))).toEqual([]);
  });

  test('hears all four ways through a gateway, and ends with 0; with 1 where there is none', async () => {
    const port = freeRtcPort();
    const settings = settingsOn(port);
    const gateway = await startInside(inContainer(settings, config.Cmd));
    const url = `http://127.0.0.1:${port}`;
    await eventually('it is ready', async () => (await readiness(url)) === 200, 30_000);
    const apiKey = createAccount(settings);
    const canary = image.newContainer('partyline-canary');
    const { Entrypoint: command = [] } = image.config('partyline-canary');
    const round = (address: string) => {
      const words = [...command, '--url', address, '--once'];
      const [program = '', ...more] = image.runCommand(canary, { CANARY_KEY: apiKey }, words);
      const { status, stdout } = spawnSync(program, more, { encoding: 'utf8' });
      return { status, heard: stdout.match(/ to .* ms .* lost .* dB/g)?.length };
    };
    await expect.poll(() => round(url), PATIENCE).toEqual({ status: 0, heard: 4 });
    expect(round('http://127.0.0.1:1').status).toBe(1);
    process.kill(gateway.nodePid()!, 'SIGTERM');
    expect(await gateway.exited).toBe(0);
  });
});
