import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startCanary } from '../support/canary.ts';
import { TestClient } from '../support/client.ts';
import { eventually, freeRtcPort } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { Prometheus, type Series, type Targets } from '../support/prometheus.ts';
import { drawGraphs } from '../support/prometheus-page.ts';
import { TestRedis } from '../support/redis.ts';
import { keepPlaying, opusTone } from '../support/sound.ts';

/** Debian's Prometheus scrapes two gateways, one of two processes, and a usage worker, under load and when things break. */

const PROJECT = join(import.meta.dirname, '../..');
const ROOMS = 7;
const TALKERS = 8;
/** A page of metrics waits for a Redis or a process that hangs, and a scrape has 2 s here. */
const IMPATIENT = timingsOf({
  redis: { commandTimeoutMs: 700 },
  processes: { answerWithinMs: 700 },
});
const SOON = { timeout: 60_000, interval: 500 };
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const cleanUps: (() => Promise<unknown> | void)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

let redis: TestRedis;
let first: GatewayProcess;
let second: GatewayProcess;
let worker: ChildProcess;
let prometheus: Prometheus;
let targets: Targets;
let urls: [string, string];
let apiKey: string;

async function startGateway(environment: Record<string, string>): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start({
    REDIS_URL: redis.url,
    USAGE_WORKERS: '0',
    ...IMPATIENT,
    ...environment,
  });
  cleanUps.push(() => gateway.dispose());
  return gateway;
}

/** A usage worker that is run apart, with the words that its command begins with. */
async function startWorker(port: number, ...before: string[]): Promise<ChildProcess> {
  const program = join(PROJECT, 'workers/usage.ts');
  const [command, ...words] = [...before, process.execPath, program];
  const child = spawn(command, words, {
    env: {
      ...process.env,
      REDIS_URL: redis.url,
      WORKER_PORT: String(port),
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      ...IMPATIENT,
    },
  });
  cleanUps.push(() => void child.kill('SIGKILL'));
  const isAlive = () =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await eventually('the worker runs', isAlive, 30_000);
  return child;
}

async function enter(url: string, peer: string, room: string): Promise<TestClient> {
  const client = await TestClient.connect(url, { room, peer, api_key: apiKey, audio: 'opus' });
  cleanUps.push(() => client.vanish());
  await client.next('joined');
  return client;
}

/** Talks without end. */
async function talk(client: TestClient, packets: Uint8Array[]): Promise<void> {
  const talking = keepPlaying(client, packets);
  cleanUps.push(() => talking.close());
}

/** A client that is refused, and tries again and again. @returns ends that */
function keepKnocking(url: string, query: Record<string, string>): () => Promise<void> {
  const stopping = new AbortController();
  const knocking = (async () => {
    while (!stopping.signal.aborted) {
      const client = await TestClient.connect(url, query);
      await client.closed;
      await wait(500);
    }
  })();
  return () => {
    stopping.abort();
    return knocking;
  };
}

const portOf = (url: string) => Number(new URL(url).port);

beforeAll(async () => {
  redis = await TestRedis.start();
  cleanUps.push(() => redis.kill());
  // Costly encoders, so that a few rooms are too much for the event loop.
  first = await startGateway({ OPUS_COMPLEXITY: '10', MIX_THREADS: '1' });
  const ready = await first.ready();
  apiKey = ready.api_key;
  second = await startGateway({ PROCESSES: '2', DEMO_ACCOUNT: 'false' });
  urls = [ready.url, (await second.ready()).url];
  const workerPort = freeRtcPort();
  worker = await startWorker(workerPort);
  const canaryPort = freeRtcPort();
  const words = ['--listen', `127.0.0.1:${canaryPort}`, '--every', '8'];
  // It measures through the second gateway.
  const { child } = startCanary({ url: urls[1], apiKey }, ...words);
  cleanUps.push(() => void child.kill('SIGKILL'));
  targets = {
    partyline: urls.map(portOf),
    'partyline-worker': [workerPort],
    canary: [canaryPort],
  };
  prometheus = await Prometheus.start(targets);
  cleanUps.push(() => prometheus.close());
});

test('scrapes both gateways, with both processes of the second, the usage worker, and the canary', async () => {
  await expect.poll(() => prometheus.query('up == 1').then((up) => up.length), SOON).toBe(4);
  const versions = await prometheus.query('count by (job, process) (partyline_build_info)');
  expect(versions.map(({ metric: { job, process: name } }) => `${job} ${name}`).toSorted()).toEqual(
    [
      'partyline gateway 0',
      'partyline gateway 1',
      'partyline undefined',
      'partyline-worker undefined',
    ],
  );
  // NoGateway fires until the first scrape.
  await expect.poll(() => prometheus.firing(), SOON).toEqual([]);
});

describe('under a load that has drops, refusals, mixing threads, pipes and the death of a media worker', () => {
  type Panel = { title: string; targets?: { expr: string }[] };
  const { panels } = JSON.parse(
    readFileSync(join(PROJECT, 'docker/grafana/dashboards/partyline.json'), 'utf8'),
  ) as { panels: Panel[] };
  const queries = panels.flatMap(({ title, targets: all = [] }) =>
    all.map(({ expr }) => ({ title, expr: expr.replaceAll('$node', '.*') })),
  );

  beforeAll(async () => {
    const tone = await opusTone(440, 0.2, 1000);
    for (let room = 0; room < ROOMS; room += 1) {
      for (let index = 0; index < TALKERS; index += 1) {
        await talk(await enter(urls[0], `talker ${room} ${index}`, `room ${room}`), tone);
      }
    }
    // A room on both nodes.
    await talk(await enter(urls[0], 'here', 'shared'), tone);
    await talk(await enter(urls[1], 'there', 'shared'), tone);
    const flood = await enter(urls[1], 'flood', 'flooded');
    const timer = setInterval(() => tone.forEach((packet) => flood.sendAudio(packet)), 100);
    cleanUps.push(() => clearInterval(timer));
    const query = { room: 'a', peer: 'stranger', api_key: 'pl_wrong' };
    cleanUps.push(keepKnocking(urls[0], query));
    const vanished = await enter(urls[0], 'vanished', 'shared');
    vanished.vanish();
    await eventually(
      'there is a second scrape',
      async () =>
        (await prometheus.query('partyline_mix_ticks_total{place="thread"} > 0')).length > 0,
      60_000,
    );
    const mediaWorker = await first.descendantPid('mediasoup-worke');
    process.kill(mediaWorker, 'SIGKILL');
  });

  test('every query of the dashboard returns data', async () => {
    expect(queries.length).toBeGreaterThan(25);
    const empty = async () => {
      const answers = await Promise.all(queries.map(({ expr }) => prometheus.query(expr)));
      return queries.filter((_, i) => answers[i]!.length === 0);
    };
    await expect.poll(empty, SOON).toEqual([]);
  });

  test("Prometheus's own page draws each of them", async () => {
    // For docs/: SCREENSHOT=docs/prometheus writes docs/prometheus-1.png and so on.
    const expressions = queries.map(({ expr }) => expr);
    const graphs = await drawGraphs(prometheus.url, expressions, process.env['SCREENSHOT']);
    expect(graphs.map(({ expression }) => expression)).toEqual(expressions);
    expect(graphs.filter(({ curves, error }) => curves === 0 || error !== '')).toEqual([]);
  });

  test.each([
    ['Refusals by reason', {}],
    ['Drops by reason', { reason: 'too_fast' }],
    ['Binary frames', { direction: 'in' }],
    ['Binary frames', { direction: 'out' }],
    ['Packets to and from routers', { direction: 'in' }],
    ['Time to mix 20 ms of a room', { place: 'inline' }],
    ['Time to mix 20 ms of a room', { place: 'thread' }],
    ['Jitter buffers', { stat: 'max' }],
    ['Ends of pipes', {}],
    ['Mouth to ear (median)', {}],
    ['Time to join (p90)', { kind: 'webrtc' }],
  ])('%s is above 0 for %o', async (title, labels) => {
    const isMeant = ({ metric, value }: Series) =>
      value > 0 && Object.entries(labels).every(([label, text]) => metric[label] === text);
    const read = async () => {
      const asked = queries.filter((query) => query.title === title);
      const answers = await Promise.all(asked.map(({ expr }) => prometheus.query(expr)));
      return answers.flat().filter(isMeant).length;
    };
    await expect.poll(read, SOON).toBeGreaterThan(0);
  });

  test('alerts tell of the drops and of the media worker', async () => {
    const expected = expect.arrayContaining(['MediaWorkersDie', 'SoundIsDropped']) as string[];
    await expect.poll(() => prometheus.firing(), SOON).toEqual(expected);
  });
});

describe('alerts are caused by what they warn of', () => {
  const firing = () => prometheus.firing();
  const including = (...names: string[]) => expect.arrayContaining(names) as string[];
  const isCalm = async (...names: string[]) => {
    const before = await firing();
    expect(names.filter((name) => before.includes(name))).toEqual([]);
  };

  test('a message that no node has sealed', async () => {
    await isCalm('ClusterMessagesAreRefused');
    const client = createClient({ url: redis.url });
    await client.connect();
    await client.publish('partyline:bus', 'from somebody else');
    await client.close();
    await expect.poll(firing, SOON).toEqual(including('ClusterMessagesAreRefused'));
  });

  test('a supervisor that hangs', async () => {
    await isCalm('ProcessHangs');
    second.child.kill('SIGSTOP');
    await expect.poll(firing, SOON).toEqual(including('ProcessHangs'));
    second.child.kill('SIGCONT');
    await expect.poll(firing, SOON).not.toContain('ProcessHangs');
  });

  test('a gateway process that is killed', async () => {
    await isCalm('GatewayProcessesDie');
    const [line] = second.logged('gateway starting').filter(({ name }) => name === 'gateway 1');
    process.kill(Number(line?.['pid']), 'SIGKILL');
    await expect.poll(firing, SOON).toEqual(including('GatewayProcessesDie'));
  });

  test('a usage worker whose clock is an hour ahead', async () => {
    await isCalm('ClockIsOff');
    const child = await startWorker(freeRtcPort(), 'faketime', '-f', '+3600');
    await expect.poll(firing, SOON).toEqual(including('ClockIsOff'));
    const exited = once(child, 'exit');
    // faketime waits for the worker, and hands no signal on.
    const { pid } = child;
    const workerPid = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'));
    process.kill(workerPid, 'SIGTERM');
    await exited;
  });

  test('a gateway that has too much to do: it is overloaded, and refuses clients; then it is killed', async () => {
    await isCalm(
      'NodeIsOverloaded',
      'NodeIsStrained',
      'NodeIsUnready',
      'ClientsAreRefused',
      'GatewayIsDown',
    );
    const third = await startGateway({ OVERLOAD_MEMORY_MB: '64', DEMO_ACCOUNT: 'false' });
    const { url } = await third.ready();
    await prometheus.setTargets({ ...targets, partyline: [...targets['partyline']!, portOf(url)] });
    await eventually(
      'it is overloaded',
      async () => (await fetch(`${url}/readyz`)).status === 503,
      20_000,
    );
    const stop = keepKnocking(url, { room: 'a', peer: 'late', api_key: apiKey });
    await expect
      .poll(firing, SOON)
      .toEqual(
        including('NodeIsOverloaded', 'NodeIsStrained', 'NodeIsUnready', 'ClientsAreRefused'),
      );
    await stop();
    third.child.kill('SIGKILL');
    await expect.poll(firing, SOON).toEqual(including('GatewayIsDown'));
    await prometheus.setTargets(targets);
  });

  test('a node of IPv6 alone, in a room of those of IPv4', async () => {
    await isCalm('NodesAreUnreachable');
    const third = await startGateway({ PIPE_LISTEN_IP: '::1', DEMO_ACCOUNT: 'false' });
    const here = await enter(urls[1], 'here', 'divided');
    const stranger = await enter((await third.ready()).url, 'stranger', 'divided');
    await expect.poll(firing, SOON).toEqual(including('NodesAreUnreachable'));
    await Promise.all([here.close(), stranger.close()]);
    await expect.poll(firing, SOON).not.toContain('NodesAreUnreachable');
    third.child.kill('SIGTERM');
    expect(await third.exited).toBe(0);
  });

  test('Redis hangs', async () => {
    await isCalm('RedisIsAway');
    redis.hang();
    await expect.poll(firing, SOON).toEqual(including('RedisIsAway', 'NodeIsUnready'));
    redis.goOn();
    await expect.poll(() => prometheus.firing(), SOON).not.toContain('RedisIsAway');
  });

  test('the last usage worker ends', async () => {
    await isCalm('UsageWorkerIsDown', 'NoUsageWorker');
    worker.kill('SIGTERM');
    await expect.poll(firing, SOON).toEqual(including('UsageWorkerIsDown', 'NoUsageWorker'));
  });
});
