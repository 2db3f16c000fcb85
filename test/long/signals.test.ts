import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { eventually, freeRtcPort, NEVER_OVERLOADED } from '../support/gateway.ts';
import { GatewayProcess, untilEnded } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';
import { startArguments } from '../support/start-arguments.ts';

const NPM_START = ['npm', 'start'];
const CTRL_C = '\u0003';
const OPERATOR_KEY = 'operator-key-of-the-tests';
const PATIENT = { DRAIN_MS: '600000', USAGE_WORKERS: '0', OPERATOR_KEY };

const cleanUps: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

async function startWith(command: string[], environment: Record<string, string> = {}) {
  const started = await GatewayProcess.startWith(command, { ...PATIENT, ...environment });
  cleanUps.push(async () => {
    const left = await started.descendantPids();
    await started.dispose();
    await untilEnded(left);
  });
  const { url, api_key: apiKey } = await started.ready();
  const client = await TestClient.connect(url, { room: 'a', peer: 'p', api_key: apiKey });
  await client.next('joined');
  return { started, client, url, apiKey, below: await started.descendantPids() };
}

/**
 * A command in a terminal of its own, and in the place of the shell that `script` starts: without
 * `exec`, Ctrl-C also ends that shell where it is dash (SHELL is not set), with 130.
 */
const inTerminal = (command: string[]) => {
  const text = `exec ${command.map((word) => `'${word}'`).join(' ')}`;
  return ['script', '--quiet', '--flush', '--return', '--command', text, '/dev/null'];
};

describe('npm start', () => {
  test.each([
    ['SIGTERM', '1'],
    ['SIGINT', '1'],
    ['SIGTERM', '2'],
  ] as const)('%s with PROCESSES=%s: it drains, and ends with 0', async (signal, PROCESSES) => {
    const { started, client, below } = await startWith(NPM_START, { PROCESSES });
    started.child.kill(signal);
    await client.next('draining');
    await client.close();
    expect(await started.exitCode()).toBe(0);
    await untilEnded(below);
    expect(started.logged('drain began')).toContainEqual(
      expect.objectContaining({ by: signal, peers: 1 }),
    );
    expect(started.logged('drain ended')).toContainEqual(expect.objectContaining({ peers: 0 }));
  });

  test.each([
    ['SIGKILL', '1'],
    ['SIGKILL', '2'],
    ['SIGHUP', '1'],
  ] as const)(
    '%s, which npm cannot hand on, with PROCESSES=%s: what is below drains, and ends',
    async (signal, PROCESSES) => {
      const { started, client, below } = await startWith(NPM_START, { PROCESSES });
      // No shell is between them, whose end might leave the gateway alone.
      await expect(started.descendantPid('sh')).rejects.toThrow('there is no');
      started.child.kill(signal);
      expect(await client.next('draining')).toMatchObject({ deadline_ms: 600_000 });
      await client.close();
      await untilEnded(below);
    },
  );

  test('npm that was killed before the gateway could look for it: the start ends', async () => {
    const gone = spawn('true');
    await once(gone, 'exit');
    const command = [process.execPath, ...startArguments(), `--end-with-parent=${gone.pid}`];
    const started = await GatewayProcess.startWith(command, { ...PATIENT });
    cleanUps.push(() => started.dispose());
    expect(await started.exitCode()).toBe(0);
    expect(await started.descendantPids()).toEqual([]);
  });

  test('a second signal ends it at once', async () => {
    const { started, client, below } = await startWith(NPM_START);
    started.child.kill('SIGINT');
    await client.next('draining');
    started.child.kill('SIGINT');
    expect(await client.closed).toBe(1012);
    expect(await started.exitCode()).toBe(0);
    await untilEnded(below);
  });

  test('npm run worker ends with 0, and does not outlive npm', async () => {
    const redis = await TestRedis.start();
    cleanUps.push(() => redis.kill());
    const environment = { ...process.env, REDIS_URL: redis.url };
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const npm = spawn('npm', ['run', 'worker'], { env: environment });
      let output = '';
      npm.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
      await eventually('it runs', () => output.includes('usage worker started'));
      const { pid } = JSON.parse(/^\{.*usage worker started.*\}$/m.exec(output)?.[0] ?? '') as {
        pid: number;
      };
      const exited = once(npm, 'exit');
      npm.kill(signal);
      await untilEnded([pid]);
      expect(await exited).toEqual(signal === 'SIGTERM' ? [0, null] : [null, signal]);
    }
  });
});

describe('a terminal', () => {
  test.each([
    ['npm start', NPM_START],
    ['the gateway itself', [process.execPath, ...startArguments()]],
  ])('one Ctrl-C counts once, and browsers keep their media: %s', async (_, command) => {
    const { started, client, below } = await startWith(inTerminal(command));
    const { webrtc } = await client.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
    started.child.stdin?.write(CTRL_C);
    await client.next('draining');
    // Time enough for another signal to arrive.
    await wait(300);
    const request = { type: 'restart_ice', transport_id: webrtc?.send_transport.id };
    await client.ask(request, 'ice_restarted');
    await client.close();
    expect(await started.exitCode()).toBe(0);
    await untilEnded(below);
    expect(started.output.match(/drain began/g)).toHaveLength(1);
    expect(started.output).not.toContain('media worker died');
    // Lines for people.
    expect(started.output).not.toContain('"msg"');
  });

  test('a second Ctrl-C ends it at once', async () => {
    const { started, client, below } = await startWith(inTerminal(NPM_START));
    started.child.stdin?.write(CTRL_C);
    await client.next('draining');
    started.child.stdin?.write(CTRL_C);
    expect(await client.closed).toBe(1012);
    expect(await started.exitCode()).toBe(0);
    await untilEnded(below);
  });

  test.each(['nohup "$0" "$@"', '"$0" "$@"'])(
    'what was started with %s & in it goes on when it is closed',
    async (command) => {
      const folder = await mkdtemp(join(tmpdir(), 'partyline-nohup-'));
      cleanUps.push(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
      const log = join(folder, 'log');
      const shell = `${command} >${log} 2>&1 & read end`;
      const words = ['sh', '-c', shell, process.execPath, ...startArguments()];
      const [script, ...more] = inTerminal(words);
      const port = String(freeRtcPort());
      const settings = { PORT: '0', DATA_DIR: join(folder, 'data'), RTC_PORT: port };
      const terminal = spawn(script!, more, {
        env: { ...process.env, ...NEVER_OVERLOADED, MEDIA_WORKERS: '1', ...settings },
      });
      const readLog = () => readFile(log, 'utf8').catch(() => '');
      await eventually('it runs', async () => (await readLog()).includes('\nready '));
      const [, pid] = /"pid":(\d+)/.exec(await readLog()) ?? [];
      cleanUps.push(() => untilEnded([Number(pid)]));
      cleanUps.push(() => void process.kill(Number(pid), 'SIGTERM'));
      const closed = once(terminal, 'exit');
      terminal.stdin.write('\n');
      await closed;
      await eventually('it is told', async () => (await readLog()).includes('terminal closed'));
      const [, url] = /^ready \{"url":"([^"]+)"/m.exec(await readLog()) ?? [];
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
    },
  );
});

describe('POST /api/admin/drain', () => {
  const headers = { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' };
  const drain = async (url: string, body: object) => {
    const request = { method: 'POST', headers, body: JSON.stringify(body) };
    const answer = await fetch(`${url}/api/admin/drain`, request);
    return { status: answer.status, body: (await answer.json()) as { deadline_ms?: number } };
  };

  test.each(['1', '2'])(
    'PROCESSES=%s: unknown fields are refused, and the deadline that holds is told',
    async (PROCESSES) => {
      const direct = [process.execPath, ...startArguments()];
      const { started, client, url, apiKey } = await startWith(direct, { PROCESSES });
      // A process without clients ends as soon as it is asked to, and may be the one that the next
      // request comes to.
      const clients = [client];
      const busy = () => new Set(started.logged('room joined').map(({ pid }) => pid)).size;
      while (busy() < Number(PROCESSES)) {
        const name = `p${clients.length}`;
        const other = await TestClient.connect(url, { room: name, peer: name, api_key: apiKey });
        await other.next('joined');
        clients.push(other);
        await eventually(
          'it is logged',
          () => started.logged('room joined').length === clients.length,
        );
      }
      expect((await drain(url, { deadline: 1000 })).status).toBe(400);
      const first = await drain(url, { deadline_ms: 60_000 });
      expect(first).toEqual({ status: 202, body: { deadline_ms: 60_000 } });
      for (const each of clients) await each.next('draining');
      const longer = await drain(url, { deadline_ms: 600_000 });
      expect(longer.body.deadline_ms).toBeGreaterThan(40_000);
      expect(longer.body.deadline_ms).toBeLessThanOrEqual(60_000);
      const shorter = await drain(url, { deadline_ms: 100 });
      expect(shorter).toEqual({ status: 202, body: { deadline_ms: 100 } });
      for (const each of clients) expect(await each.closed).toBe(1012);
      expect(await started.exitCode()).toBe(0);
      expect(started.output).toMatch(/"by":"POST \/api\/admin\/drain from 127\.0\.0\.1"/);
    },
  );
});
