import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { createClient } from 'redis';
import type { TimingOverrides } from '../../config/timings.ts';
import { WEBHOOK_WORKERS } from '../../src/store/keys.ts';
import { makeCertificates, type TestCertificates } from '../../test/support/certificates.ts';
import { timingsOf } from '../../test/support/process.ts';
import { createAccount, OPERATOR_KEY } from '../ask-operator.ts';
import { Child } from '../child.ts';
import { GatewayProcess } from '../gateway-process.ts';
import { CROWD } from '../scenario.ts';
import type { Attack, AttackReport } from './attack.ts';
import { type Floor, isWithin, mayStay, type Measured, nameOf, rowOf } from './attack-row.ts';
import { ATTACKS } from './attacks.ts';
import { fillMonth } from './busy-month.ts';
import { askGap, openListeners, REPORT_TIMEOUT_MS, script, startScript } from './ears.ts';

const QUIET_SECONDS = 2;
const MAX_FLOOR_SECONDS = 3;
/** Time for which places of attackers are kept. */
const RESUME_MS = 1000;
/** Longest time until the gateway has no session and no kept place of the attackers any more. */
const MAX_GONE_MS = 45_000;
/** Time for what follows an attack or a garbage collection; interval of looks at the gateway. */
const SETTLE_MS = 1000;
/** Time for which the two listen on when the attackers have broken off, ms: hundreds of connections end, and then their places. */
const AFTERWARDS_MS = 2000;
const MAX_WORKER_START_MS = 15_000;
/** Interval at which the gateway writes minutes, so that what an attack leaves in Redis is there when it is looked at. */
const USAGE_WRITE_MS = 500;
/**
 * Longest duration of the second attack, after which no more memory may be in use than after the first. A client that sends too much is
 * closed after 5 to 6.3 s (`closeAfterMs`, and the wait for the tokens of a message), and is back within this.
 */
export const MAX_SECOND_SECONDS = 8;
/** Webhook of the attackers' account: nobody listens there, so that its events wait in Redis. */
const REFUSING_ENDPOINT = 'http://127.0.0.1:9/';
/** Answer of TTL (Redis) for a key without an expiry. */
const NEVER_EXPIRES = -1;

/** Verdict and row of the table. */
export type Row = { text: string; isMet: boolean };

/** The attack of a row, and its duration; certificates if it goes over TLS. */
type AttackLoad = {
  /** Place of the attack in {@link ATTACKS}. */
  index: number;
  clients: number;
  plan: 'free' | 'starter' | 'pro';
  seconds: number;
  certificates: TestCertificates | undefined;
  /** Webhook of the account that needs a usage worker, because somebody listens there. */
  hangingEndpoint: string | undefined;
  hasBusyMonth: boolean;
  timings: TimingOverrides | undefined;
};

/** Two peers of one account talk while a client, or 500, of another account attack: measures what the two hear of it. */
export async function reportAttack(index: number, clients: number, seconds: number): Promise<Row> {
  await using opened = new AsyncDisposableStack();
  const wanted = ATTACKS[index]!;
  const load: AttackLoad = {
    index,
    clients: clientsOf(wanted, clients),
    plan: clients === 1 ? (wanted.leastPlan ?? 'free') : 'pro',
    seconds,
    certificates: 'isOverTls' in wanted ? await openCertificates(opened) : undefined,
    hangingEndpoint: wanted.hasHangingWebhook ? await openHangingEndpoint(opened) : undefined,
    hasBusyMonth: wanted.hasBusyMonth === true,
    timings: wanted.timings,
  };
  const floor = 'hasNoFloor' in wanted ? undefined : await measureFloor(load);
  const measured = { ...(await measure(load)), floor };
  const isMet = isWithin(wanted, measured, load.clients);
  const name = nameOf(wanted, load.clients, clients);
  return { text: rowOf(name, measured, isMet), isMet };
}

const clientsOf = ({ fewestClients = 1, mostClients = Infinity }: Attack, wanted: number) =>
  Math.min(Math.max(wanted, fewestClients), mostClients);

/** Makes a certificate for the servers of a row, which this process trusts from now on; its children are told ({@link environmentOf}). */
async function openCertificates(opened: AsyncDisposableStack): Promise<TestCertificates> {
  const certificates = opened.adopt(await makeCertificates('IP:127.0.0.1'), (made) => made.close());
  const trusted = await readFile(certificates.caFile, 'utf8');
  setDefaultCACertificates([...getCACertificates('default'), trusted]);
  return certificates;
}

/** Opens a server that takes requests and answers none. @returns its URL */
async function openHangingEndpoint(opened: AsyncDisposableStack): Promise<string> {
  const server = opened.use(createServer());
  opened.defer(() => server.closeAllConnections());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Environment of a row's clients. */
const environmentOf = ({ certificates }: AttackLoad): Record<string, string> =>
  certificates ? { NODE_EXTRA_CA_CERTS: certificates.caFile } : {};

async function measureFloor(load: AttackLoad): Promise<Floor> {
  const { seconds, certificates } = load;
  await using opened = new AsyncDisposableStack();
  const files = certificates ? [certificates.certFile, certificates.keyFile] : [];
  const server = opened.adopt(
    new Child('the bare server', [process.execPath, script('bare-server'), ...files]),
    (child) => child.stop(),
  );
  const { url } = await server.ready();
  const listeners = opened.adopt(openListeners(String(url), 'none', environmentOf(load)), (child) =>
    child.stop(),
  );
  await listeners.ready();
  await askGap(listeners);
  server.process.send('reset');
  const shorter = Math.min(seconds, MAX_FLOOR_SECONDS);
  const attackers = await attack(String(url), 'none', { ...load, seconds: shorter });
  await sleep(AFTERWARDS_MS);
  const gapMs = await askGap(listeners);
  const loopMs = server.nextMessage<number>(REPORT_TIMEOUT_MS);
  server.process.send('report');
  return { gapMs, loopMs: await loopMs, attackers };
}

async function measure(load: AttackLoad): Promise<Omit<Measured, 'floor'>> {
  const { plan, seconds, certificates, hangingEndpoint, hasBusyMonth, timings } = load;
  await using opened = new AsyncDisposableStack();
  const gateway = opened.use(
    await GatewayProcess.start(CROWD, {
      probe: true,
      environment: {
        OPERATOR_KEY,
        RESUME_MS: String(RESUME_MS),
        ...timingsOf({ usage: { writeEveryMs: USAGE_WRITE_MS }, ...timings }),
        ...(hangingEndpoint && { USAGE_WORKERS: '1' }),
        ...(certificates && { TLS_CERT: certificates.certFile, TLS_KEY: certificates.keyFile }),
      },
    }),
  );
  const endpoint = hangingEndpoint ?? REFUSING_ENDPOINT;
  const { account, api_key: key } = await createAccount(gateway.url, plan, endpoint);
  if (hasBusyMonth) await fillMonth(socketOf(gateway.dataDir), account.id);
  const listeners = opened.adopt(
    openListeners(gateway.url, gateway.apiKey, environmentOf(load)),
    (child) => child.stop(),
  );
  await listeners.ready();
  const redis = await openRedis(gateway.dataDir);
  opened.defer(() => redis.destroy());
  if (hangingEndpoint) await webhookWorker(redis);
  await sleep(1000);
  await askGap(listeners);
  await sleep(QUIET_SECONDS * 1000);
  const quietMs = await askGap(listeners);
  const before = { heap: await gateway.askHeapBytes(), redis: await redisBytes(redis) };
  const keysBefore = await keysOf(redis);
  // Packets that the garbage collection has delayed are heard meanwhile.
  await sleep(SETTLE_MS);
  gateway.resetProbe();
  await askGap(listeners);
  const attackers = await attack(gateway.url, key, load);
  await sleep(AFTERWARDS_MS);
  const gapMs = await askGap(listeners);
  const { loopDelayP99Ms: loopMs } = await gateway.askProbe();
  await untilGone(gateway.url);
  const heapAfter = await gateway.askHeapBytes();
  await attack(gateway.url, key, { ...load, seconds: Math.min(seconds, MAX_SECOND_SECONDS) });
  await untilGone(gateway.url);
  const heapAgain = await gateway.askHeapBytes();
  return {
    gapMs,
    quietMs,
    loopMs,
    heapMb: (heapAfter - before.heap) / 1e6,
    heapAgainMb: (heapAgain - heapAfter) / 1e6,
    redisMb: ((await redisBytes(redis)) - before.redis) / 1e6,
    keptKeys: await keptKeys(redis, keysBefore),
    attackers,
  };
}

async function attack(url: string, key: string, load: AttackLoad): Promise<AttackReport> {
  const { index, clients, seconds } = load;
  const words = [url, key, index, clients, seconds].map(String);
  const attacker = startScript('the attackers', 'attacker', words, environmentOf(load));
  try {
    return await attacker.nextMessage<AttackReport>(seconds * 1000 + REPORT_TIMEOUT_MS);
  } finally {
    await attacker.stop();
  }
}

/** Returns a figure of `/metrics`. */
const figure = (text: string, name: string) =>
  Number(new RegExp(`^partyline_${name} (\\d+)`, 'm').exec(text)?.[1]);

/**
 * Waits until nobody but the two listeners is there, and its minutes are written. A client that is not read for a while is found gone only when it is
 * read again.
 */
async function untilGone(url: string): Promise<void> {
  const deadlineMs = performance.now() + MAX_GONE_MS;
  for (;;) {
    const text = await (await fetch(new URL('/metrics', url))).text();
    if (figure(text, 'sessions') <= 2 && figure(text, 'kept_places') === 0) break;
    if (performance.now() > deadlineMs) throw new Error('attackers are still there');
    await sleep(SETTLE_MS);
  }
  await sleep(USAGE_WRITE_MS + SETTLE_MS);
}

type Redis = ReturnType<typeof createClient>;

const socketOf = (dataDir: string) => join(dataDir, 'redis.sock');

/** Connects to the gateway's own Redis. */
async function openRedis(dataDir: string): Promise<Redis> {
  const client = createClient({ socket: { path: socketOf(dataDir), tls: false } });
  await client.connect();
  return client as Redis;
}

/** Waits until a usage worker can send webhooks. */
async function webhookWorker(redis: Redis): Promise<void> {
  const deadlineMs = performance.now() + MAX_WORKER_START_MS;
  while ((await redis.exists(WEBHOOK_WORKERS)) === 0) {
    if (performance.now() > deadlineMs) throw new Error('the usage worker did not start');
    await sleep(100);
  }
}

/** Returns the memory of the data of Redis. */
async function redisBytes(redis: Redis): Promise<number> {
  const info = await redis.info('memory');
  return Number(/^used_memory_dataset:(\d+)/m.exec(info)?.[1]);
}

async function keysOf(redis: Redis): Promise<Set<string>> {
  const keys = new Set<string>();
  for await (const some of redis.scanIterator({ COUNT: 1000 }))
    for (const key of some) keys.add(key);
  return keys;
}

/** Returns the new keys that never expire and may not stay. */
async function keptKeys(redis: Redis, before: Set<string>): Promise<string[]> {
  const kept: string[] = [];
  for (const key of await keysOf(redis)) {
    if (before.has(key) || mayStay(key)) continue;
    if ((await redis.ttl(key)) === NEVER_EXPIRES) kept.push(key);
  }
  return kept;
}
