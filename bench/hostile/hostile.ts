import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createClient } from 'redis';
import { Child, PINNING } from '../child.ts';
import { GatewayProcess } from '../gateway-process.ts';
import { met } from '../goals.ts';
import { CROWD } from '../scenario.ts';
import type { AttackReport } from './attack.ts';
import { ATTACKS } from './attacks.ts';

const OPERATOR_KEY = 'operator-key-of-the-bench';
const QUIET_SECONDS = 2;
/** Time for the gateway to let go of what the attackers left. */
const SETTLE_MS = 3000;
const CROWD_CLIENTS = 500;
const REPORT_TIMEOUT_MS = 30_000;

/** Bounds beyond quiet and floor, for one attacker and for a crowd. */
const GOALS = {
  one: { gapMs: 60, loopMs: 20 },
  crowd: { gapMs: 200, loopMs: 50 },
  heapMb: 20,
  redisMb: 3,
};

const script = (name: string) => fileURLToPath(new URL(`./${name}.ts`, import.meta.url));

/** Two peers of one account that talk while a client, or 500, of another account attack: what the two hear of it. */
export async function reportHostile(
  say: (text: string) => void,
  seconds: number,
  signal: AbortSignal,
) {
  for (const clients of [1, CROWD_CLIENTS]) {
    say(`\n${heading(clients, seconds)}`);
    for (const [index, { name }] of ATTACKS.entries()) {
      signal.throwIfAborted();
      const floorMs = await measureFloor(index, clients, seconds);
      const row = await measure(index, clients, seconds);
      say(rowOf(name, clients, { ...row, floorMs }));
    }
  }
}

const heading = (clients: number, seconds: number) =>
  `| ${clients === 1 ? 'one client of a free account' : `${clients} connections of a pro account`}, ${seconds} s each | longest gap | quiet | floor | loop p99 | heap after | Redis after | told | |\n` +
  '| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n';

type Measured = {
  gapMs: number;
  quietMs: number;
  floorMs: number;
  loopMs: number;
  heapMb: number;
  redisMb: number;
  attackers: AttackReport;
};

const ms = (value: number) => `${value.toFixed(0)} ms`;
const mb = (value: number) => `${value.toFixed(1)} MB`;

function rowOf(name: string, clients: number, measured: Measured): string {
  const { gapMs, quietMs, floorMs, loopMs, heapMb, redisMb, attackers } = measured;
  const goal = clients === 1 ? GOALS.one : GOALS.crowd;
  const isMet =
    gapMs - Math.max(quietMs, floorMs) <= goal.gapMs &&
    loopMs <= goal.loopMs &&
    heapMb <= GOALS.heapMb &&
    redisMb <= GOALS.redisMb;
  const told = Object.entries(attackers.told)
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, 3)
    .map(([code, times]) => `${code} × ${times}`);
  const cells = [name, ms(gapMs), ms(quietMs), ms(floorMs), ms(loopMs), mb(heapMb), mb(redisMb)];
  return `| ${[...cells, told.join(', '), met(isMet)].join(' | ')} |\n`;
}

/** Returns the longest gap, ms, that the two hear of the same attack on a server that does next to nothing. */
async function measureFloor(index: number, clients: number, seconds: number): Promise<number> {
  await using opened = new AsyncDisposableStack();
  const server = opened.adopt(
    new Child('the bare server', [process.execPath, script('bare-server')]),
    (child) => child.stop(),
  );
  const { url } = await server.ready();
  const listeners = opened.adopt(openListeners(String(url), 'none'), (child) => child.stop());
  await listeners.ready();
  await askGap(listeners);
  await attack(String(url), 'none', index, clients, Math.min(seconds, 3));
  return await askGap(listeners);
}

async function measure(index: number, clients: number, seconds: number) {
  await using opened = new AsyncDisposableStack();
  const gateway = opened.use(
    await GatewayProcess.start(CROWD, { probe: true, environment: { OPERATOR_KEY } }),
  );
  const key = await createAccount(gateway.url, clients === 1 ? 'free' : 'pro');
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

const openListeners = (url: string, key: string) =>
  new Child(
    'the listeners',
    [process.execPath, script('listeners'), url, key],
    {},
    String(PINNING?.load),
  );

async function askGap(listeners: Child): Promise<number> {
  const answer = listeners.nextMessage<number>(REPORT_TIMEOUT_MS);
  listeners.process.send('report');
  return answer;
}

async function attack(
  url: string,
  key: string,
  index: number,
  clients: number,
  seconds: number,
): Promise<AttackReport> {
  const words = [url, key, index, clients, seconds].map(String);
  const attacker = new Child(
    'the attackers',
    [process.execPath, script('attacker'), ...words],
    {},
    String(PINNING?.load),
  );
  try {
    return await attacker.nextMessage<AttackReport>(seconds * 1000 + REPORT_TIMEOUT_MS);
  } finally {
    await attacker.stop();
  }
}

async function createAccount(url: string, plan: string): Promise<string> {
  const response = await fetch(new URL('/api/admin/accounts', url), {
    method: 'POST',
    headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Attacker', email: 'attacker@example.com', plan }),
  });
  if (!response.ok) throw new Error(`no account: ${response.status} ${await response.text()}`);
  return ((await response.json()) as { api_key: string }).api_key;
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
