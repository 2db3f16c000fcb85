import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { Child } from '../child.ts';
import { GatewayProcess } from '../gateway-process.ts';
import { met } from '../goals.ts';
import { CROWD } from '../scenario.ts';
import type { AttackReport } from './attack.ts';
import { ATTACKS } from './attacks.ts';
import {
  askGap,
  createAccount,
  ms,
  openListeners,
  OPERATOR_KEY,
  REPORT_TIMEOUT_MS,
  script,
  startScript,
} from './ears.ts';

const QUIET_SECONDS = 2;
const MAX_FLOOR_SECONDS = 3;
/** Time for which places of attackers are kept. */
const RESUME_MS = 1000;
/** Time for the gateway to let go of what the attackers left: the longest that is waited, and what comes after. */
const MAX_GONE_MS = 45_000;
const SETTLE_MS = 1000;
/** Connections of a pro account. */
export const CROWD_CLIENTS = 500;

/** Bounds beyond quiet and floor, for one attacker and for a crowd. */
export const GOALS = {
  one: { gapMs: 60, loopMs: 20 },
  crowd: { gapMs: 200, loopMs: 50 },
  heapMb: 20,
  redisMb: 3,
};

/** Verdict and row of the table. */
export type Row = { text: string; isMet: boolean };

/** Two peers of one account talk while a client, or 500, of another account attack: measures what the two hear of it. */
export async function reportAttack(index: number, clients: number, seconds: number): Promise<Row> {
  const floor = await measureFloor(index, clients, seconds);
  const measured = { ...(await measure(index, clients, seconds)), floor };
  const isMet = isWithin(measured, clients);
  return { text: rowOf(ATTACKS[index]!.name, measured, isMet), isMet };
}

export const attacksHeading = (clients: number, seconds: number) =>
  `| ${clients === 1 ? 'one client of a free account' : `${clients} connections of a pro account`}, ${seconds} s each | longest gap | quiet | floor | loop p99 | floor | heap after | Redis after | told | |\n` +
  '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n';

/** Cost of the same attack for a server that does next to nothing: the longest gap, and the 99th percentile of the event loop. */
type Floor = { gapMs: number; loopMs: number };

type Measured = {
  gapMs: number;
  quietMs: number;
  floor: Floor;
  loopMs: number;
  heapMb: number;
  redisMb: number;
  attackers: AttackReport;
};

const mb = (value: number) => `${value.toFixed(1)} MB`;

function isWithin(measured: Measured, clients: number): boolean {
  const { gapMs, quietMs, floor, loopMs, heapMb, redisMb } = measured;
  const goal = clients === 1 ? GOALS.one : GOALS.crowd;
  return (
    gapMs - Math.max(quietMs, floor.gapMs) <= goal.gapMs &&
    loopMs - floor.loopMs <= goal.loopMs &&
    heapMb <= GOALS.heapMb &&
    redisMb <= GOALS.redisMb
  );
}

function rowOf(name: string, measured: Measured, isMet: boolean): string {
  const { gapMs, quietMs, floor, loopMs, heapMb, redisMb, attackers } = measured;
  const told = Object.entries(attackers.told)
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, 3)
    .map(([code, times]) => `${code} × ${times}`);
  const gaps = [gapMs, quietMs, floor.gapMs];
  const cells = [name, ...[...gaps, loopMs, floor.loopMs].map(ms), mb(heapMb), mb(redisMb)];
  return `| ${[...cells, told.join(', '), met(isMet)].join(' | ')} |\n`;
}

async function measureFloor(index: number, clients: number, seconds: number): Promise<Floor> {
  await using opened = new AsyncDisposableStack();
  const server = opened.adopt(
    new Child('the bare server', [process.execPath, script('bare-server')]),
    (child) => child.stop(),
  );
  const { url } = await server.ready();
  const listeners = opened.adopt(openListeners(String(url), 'none'), (child) => child.stop());
  await listeners.ready();
  await askGap(listeners);
  server.process.send('reset');
  await attack(String(url), 'none', index, clients, Math.min(seconds, MAX_FLOOR_SECONDS));
  const gapMs = await askGap(listeners);
  const loopMs = server.nextMessage<number>(REPORT_TIMEOUT_MS);
  server.process.send('report');
  return { gapMs, loopMs: await loopMs };
}

async function measure(index: number, clients: number, seconds: number) {
  await using opened = new AsyncDisposableStack();
  const gateway = opened.use(
    await GatewayProcess.start(CROWD, {
      probe: true,
      environment: { OPERATOR_KEY, RESUME_MS: String(RESUME_MS) },
    }),
  );
  const { api_key: key } = await createAccount(gateway.url, clients === 1 ? 'free' : 'pro');
  const listeners = opened.adopt(openListeners(gateway.url, gateway.apiKey), (child) =>
    child.stop(),
  );
  await listeners.ready();
  await sleep(1000);
  await askGap(listeners);
  await sleep(QUIET_SECONDS * 1000);
  const quietMs = await askGap(listeners);
  const before = { heap: await gateway.askHeapBytes(), redis: await redisBytes(gateway.dataDir) };
  gateway.resetProbe();
  await askGap(listeners);
  const attackers = await attack(gateway.url, key, index, clients, seconds);
  const gapMs = await askGap(listeners);
  const { loopDelayP99Ms: loopMs } = await gateway.askProbe();
  await untilGone(gateway.url);
  await sleep(SETTLE_MS);
  const after = { heap: await gateway.askHeapBytes(), redis: await redisBytes(gateway.dataDir) };
  return {
    gapMs,
    quietMs,
    loopMs,
    heapMb: (after.heap - before.heap) / 1e6,
    redisMb: (after.redis - before.redis) / 1e6,
    attackers,
  };
}

async function attack(
  url: string,
  key: string,
  index: number,
  clients: number,
  seconds: number,
): Promise<AttackReport> {
  const words = [url, key, index, clients, seconds].map(String);
  const attacker = startScript('the attackers', 'attacker', ...words);
  try {
    return await attacker.nextMessage<AttackReport>(seconds * 1000 + REPORT_TIMEOUT_MS);
  } finally {
    await attacker.stop();
  }
}

/** Returns a figure of `/metrics`. */
const figure = (text: string, name: string) =>
  Number(new RegExp(`^partyline_${name} (\\d+)`, 'm').exec(text)?.[1]);

/** Waits until nobody but the two listeners is there. A client that is not read for a while is found gone only when it is read again. */
async function untilGone(url: string): Promise<void> {
  const deadlineMs = performance.now() + MAX_GONE_MS;
  for (;;) {
    const text = await (await fetch(new URL('/metrics', url))).text();
    if (figure(text, 'sessions') <= 2 && figure(text, 'kept_places') === 0) return;
    if (performance.now() > deadlineMs) throw new Error('attackers are still there');
    await sleep(SETTLE_MS);
  }
}

/** Memory of the gateway's own Redis. */
async function redisBytes(dataDir: string): Promise<number> {
  const client = createClient({ socket: { path: join(dataDir, 'redis.sock'), tls: false } });
  await client.connect();
  try {
    const info = await client.info('memory');
    return Number(/^used_memory_dataset:(\d+)/m.exec(info)?.[1]);
  } finally {
    client.destroy();
  }
}
