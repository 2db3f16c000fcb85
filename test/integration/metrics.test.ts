import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { CanaryMetrics } from '../../packages/canary/src/metrics.ts';
import { VERSION } from '../../src/version.ts';
import { eventually, freeRtcPort } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openGateway, openRedis, connect, enter } = useStack();

const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
const scrape = async (url: string) => (await fetch(`${url}/metrics`)).text();

/** Names of the metrics in an answer to a scrape. */
const typesIn = (text: string) => [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name!);

/** The names of the metrics that there are; what Node itself counts is prom-client's to name. */
async function namesIn(url: string): Promise<Set<string>> {
  return new Set(typesIn(await scrape(url)));
}

/** Names of the series that a canary serves; its histograms are asked for by bucket. */
async function namesOfCanary(): Promise<string[]> {
  const names = typesIn(await new CanaryMetrics().registry.metrics());
  return names.flatMap((name) => (name.endsWith('_seconds') ? [name, `${name}_bucket`] : [name]));
}
const isNodes = (name: string) => /^partyline_(process|nodejs)_/.test(name);

const namesUsed = (text: string) => new Set(text.match(/\bpartyline_\w+/g));

async function valueOf(url: string, figure: string): Promise<number> {
  const line = (await scrape(url)).split('\n').find((each) => each.startsWith(`${figure} `));
  return Number(line?.slice(figure.length));
}

test('alerts and dashboard query only existing metrics', async () => {
  const { url } = await openGateway();
  const known = new Set([...(await namesIn(url)), ...(await namesOfCanary())]);
  const alerts = namesUsed(await read('docker/alerts.yml'));
  const dashboard = JSON.parse(await read('docker/grafana/dashboards/partyline.json')) as {
    panels: { targets?: { expr: string }[] }[];
  };
  const expressions = dashboard.panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }) => expr),
  );
  const asked = namesUsed(expressions.join('\n'));
  expect(alerts.size).toBeGreaterThan(5);
  expect(asked.size).toBeGreaterThan(15);
  expect([...alerts, ...asked].filter((name) => !known.has(name))).toEqual([]);
});

test('docs/operations/watch.md describes every metric, and no others', async () => {
  const { url } = await openGateway();
  const [, table] = /<!-- metrics -->([^]*)<!-- \/metrics -->/.exec(
    await read('docs/operations/watch.md'),
  )!;
  const known = [...(await namesIn(url))].filter((name) => !isNodes(name));
  expect([...namesUsed(table!)].toSorted()).toEqual(known.toSorted());
});

test('a usage worker with WORKER_PORT serves the metrics that docs/operations/watch.md names, and its health', async () => {
  const redis = await openRedis();
  const port = freeRtcPort();
  const program = fileURLToPath(new URL('../../workers/usage.ts', import.meta.url));
  const env = { ...process.env, REDIS_URL: redis.url, WORKER_PORT: String(port) };
  const worker = spawn(process.execPath, [program], { env });
  const exited = once(worker, 'exit');
  try {
    const url = `http://127.0.0.1:${port}`;
    const ask = (path: string, method = 'GET') =>
      fetch(`${url}${path}`, { method }).catch(() => undefined);
    await eventually('it listens', async () => (await ask('/healthz'))?.status === 200);
    expect(await (await ask('/healthz'))?.json()).toEqual({ status: 'ok', version: VERSION });
    const [, table] = /<!-- worker metrics -->([^]*)<!-- \/worker metrics -->/.exec(
      await read('docs/operations/watch.md'),
    )!;
    const names = [...(await namesIn(url))].filter((name) => !isNodes(name));
    expect([...namesUsed(table!)].toSorted()).toEqual(names.toSorted());
    expect(await valueOf(url, 'partyline_redis_up')).toBe(1);
    expect(await valueOf(url, 'partyline_webhook_requests_total{result="taken"}')).toBe(0);
    expect((await ask('/'))?.status).toBe(404);
    expect((await ask('/metrics', 'POST'))?.status).toBe(405);
  } finally {
    worker.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
  }
});

test('frames are counted both ways, and what is dropped by why', async () => {
  const { url, apiKey } = await openGateway();
  const figures = {
    in: 'partyline_frames_total{direction="in"}',
    out: 'partyline_frames_total{direction="out"}',
    lobby: 'partyline_dropped_packets_total{reason="not_in_room"}',
    fast: 'partyline_dropped_packets_total{reason="too_fast"}',
    bad: 'partyline_dropped_packets_total{reason="undecodable"}',
    ticks: 'partyline_mix_ticks_total{place="inline"}',
  };
  const readAll = async () => {
    const values = Object.entries(figures).map(async ([key, name]) => [
      key,
      await valueOf(url, name),
    ]);
    return Object.fromEntries(await Promise.all(values)) as Record<keyof typeof figures, number>;
  };
  const before = await readAll();
  const [alice, bob] = [await enter({ url, apiKey }, 'alice'), await enter({ url, apiKey }, 'bob')];
  const waiting = await connect({ url, apiKey }, { room: '__lobby__', peer: 'waiting' });
  const tone = await opusTone(500, 0.3, 1000);
  waiting.sendAudio(tone[0]!);
  await play(alice, tone);
  await eventually('all is heard', () => bob.frames.length === tone.length);
  alice.sendAudio(Buffer.from([3]));
  const carol = await enter({ url, apiKey }, 'carol');
  await Promise.all([play(alice, tone), play(bob, tone)]);
  await eventually('carol hears', () => carol.frames.length > 20);
  // More than the longest piece of a sender whose frames come in bursts, as on a busy machine they
  // do.
  const pieces = 4;
  for (let piece = 0; piece < pieces; piece += 1) {
    for (const packet of tone) alice.sendAudio(packet);
  }
  const sent = (3 + pieces) * tone.length + 2;
  await eventually('all has come', async () => (await readAll()).in - before.in >= sent);
  const after = await readAll();
  expect(after.in - before.in).toBe(sent);
  // Packets that came at once are dropped.
  expect(after.fast).toBeGreaterThan(before.fast);
  expect(after.out - before.out).toBeGreaterThan(tone.length);
  expect(after.lobby - before.lobby).toBe(1);
  expect(after.bad - before.bad).toBe(1);
  expect(after.ticks - before.ticks).toBeGreaterThan(20);
});

test('while Redis is away there are metrics all the same, and they say so', async () => {
  const redis = await openRedis();
  const { url } = await openGateway({ REDIS_URL: redis.url });
  expect(await valueOf(url, 'partyline_redis_up')).toBe(1);
  expect(await valueOf(url, 'partyline_usage_jobs_waiting')).toBe(0);
  redis.hang();
  const text = await scrape(url);
  redis.goOn();
  expect(text).toContain('partyline_redis_up 0\n');
  expect(text).toContain('partyline_sessions 0\n');
  expect(text).not.toMatch(/^partyline_open_minutes /m);
  await eventually('it is back', async () => (await valueOf(url, 'partyline_redis_up')) === 1);
});

test('a media worker that dies is counted', async () => {
  const gateway = await openGateway({ MEDIA_WORKERS: '2' });
  const { url } = gateway;
  const restarts = 'partyline_media_worker_restarts_total';
  expect(await valueOf(url, restarts)).toBe(0);
  process.kill(gateway.mediaWorkerPids()[0]!, 'SIGKILL');
  await eventually('it is counted', async () => (await valueOf(url, restarts)) === 1);
  const measured = /^partyline_media_worker_cpu_ratio\{worker="1"\} /m;
  await eventually('the next second is measured', async () => measured.test(await scrape(url)));
});

test('each mixing thread that may run is measured', async () => {
  const { url } = await openGateway({ MIX_THREADS: '2' });
  const measured = /^partyline_mix_thread_ratio\{thread="0"\} 0\n.*thread="1"\} 0$/m;
  await eventually('the next second is measured', async () => measured.test(await scrape(url)));
});
