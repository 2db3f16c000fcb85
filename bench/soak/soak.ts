import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { Accounts } from '../../src/accounts/accounts.ts';
import { Redis } from '../../src/store/redis.ts';
import { silentLog } from '../../test/support/gateway.ts';
import { TestRedis } from '../../test/support/redis.ts';
import { opusTone, sampleTone } from '../../test/support/sound.ts';
import type { Claim } from './claim.ts';
import { checkClaims, findGhosts, type Seen, type SoakAccount } from './claims.ts';
import { inject, type World } from './faults.ts';
import { Ledger } from './ledger.ts';
import { SoakNodes } from './nodes.ts';
import type { SoakOptions } from './options.ts';
import { type PeerParts, type Persona, SoakPeer } from './peer.ts';
import { type Fault, planFaults, planVisits, roomsFor } from './plan.ts';
import { readRedis, type RedisContents } from './redis-keys.ts';
import { Sampler } from './sampler.ts';
import { EventCounts } from './event-counts.ts';

type InjectedFault = Fault & { startedMs: number; tookMs: number; what: string };

/** Result of a soak. */
export type SoakResult = {
  options: SoakOptions;
  claims: Claim[];
  faults: InjectedFault[];
  sampler: Sampler;
  tally: EventCounts;
  redisAtStart: RedisContents;
  redisAtEnd: RedisContents;
};

const ACCOUNTS = 3;
const BURST_PEERS = 40;
const BURST_STAYS_MS = 3000;
const SAY_MS = 3000;
/** Time after which a dead node is removed: nodes count it as dead after 3 s, and look every second. */
const BURIED_AFTER_MS = 6000;
const LOOK_EVERY_MS = 5000;

/**
 * Lets peers come and go, and injects faults, for as long as the options say; then checks the remaining
 * state.
 * @param log called with progress messages
 * @throws {Error} when it is interrupted
 */
export async function soak(
  options: SoakOptions,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<SoakResult> {
  await using opened = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), 'partyline-soak-'));
  opened.defer(() => rm(dataDir, { recursive: true, force: true }));
  const redis = opened.adopt(await TestRedis.start(dataDir), (part) => part.kill());
  const accounts = await createAccounts(redis.url);
  const nodes = opened.adopt(
    await SoakNodes.start(options.nodes, environmentOf(options, redis.url), log),
    (part) => part.close(),
  );
  const sampler = opened.adopt(new Sampler(nodes, redis.url), (part) => part.close());
  const redisAtStart = await readRedis(redis.url);
  const ending = new AbortController();
  opened.defer(() => ending.abort());
  const parts = { nodes, ledger: new Ledger(), tally: new EventCounts(), ending: ending.signal };
  const cast = await castPeers(options, accounts);
  const peers = cast.map((persona) => new SoakPeer(persona, parts));
  const runs = peers.map((peer, index) => peer.run(visitsOf(options, index)));
  const burst = (fault: Fault) => {
    runs.push(...burstOf(fault, cast, options, parts));
  };
  const world = { nodes, redis, ledger: parts.ledger, peers, burst };
  const startMs = performance.now();
  const faults = await injectAll(options, world, log, signal);
  const leftMs = startMs + options.minutes * 60_000 - performance.now();
  await delay(Math.max(0, leftMs), undefined, { signal });
  ending.abort();
  await Promise.all(runs);
  log('everybody has left');
  sampler.close();
  await delay(options.resumeMs + BURIED_AFTER_MS, undefined, { signal });
  const rooms = Math.ceil(roomsFor(options.peers) / ACCOUNTS);
  const ghosts = await findGhosts(nodes, accounts, rooms).catch(({ message }: Error) => [message]);
  const seen = { options, accounts, redisUrl: redis.url, ...parts, sampler, ghosts };
  const claims = await settle(seen, log, signal);
  const redisAtEnd = await readRedis(redis.url);
  return { options, claims, faults, sampler, tally: parts.tally, redisAtStart, redisAtEnd };
}

/** Checks the claims until all that are awaited hold, or until the time for that is over. */
async function settle(
  seen: Seen,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<Claim[]> {
  const deadlineMs = performance.now() + seen.options.settleMs;
  for (;;) {
    const claims = await checkClaims(seen).catch((reason: Error) => [unanswered(reason)]);
    const open = claims
      .filter((claim) => !claim.isOk && seen.options.isAwaited(claim))
      .map(({ name, found }) => `${name}: ${found}`);
    if (open.length === 0 || performance.now() > deadlineMs) return claims;
    log(`not yet: ${open.join('; ')}`);
    await delay(LOOK_EVERY_MS, undefined, { signal });
  }
}

/** Claim that fails because a node did not answer at the end. */
const unanswered = ({ message }: Error): Claim => ({
  name: 'all nodes and Redis answer',
  expected: 'an answer',
  found: message,
  isOk: false,
});

const environmentOf = ({ resumeMs }: SoakOptions, redisUrl: string) => ({
  REDIS_URL: redisUrl,
  DEMO_ACCOUNT: 'false',
  LOG_LEVEL: 'warn',
  RESUME_MS: String(resumeMs),
  // No client is refused because the machine is busy: the load must be the same from the beginning
  // to the end.
  OVERLOAD_LOOP_DELAY_MS: '0',
  OVERLOAD_CPU_PERCENT: '0',
});

async function createAccounts(redisUrl: string): Promise<SoakAccount[]> {
  const store = await Redis.connect({ url: redisUrl }, silentLog, DEFAULT_TIMINGS.redis);
  const accounts = new Accounts(store);
  const created: SoakAccount[] = [];
  while (created.length < ACCOUNTS) {
    const { id } = await accounts.create({ name: 'Soak', email: 'soak@localhost', plan: 'pro' });
    const { apiKey } = await accounts.addKey(id);
    created.push({ id, apiKey });
  }
  await store.close();
  return created;
}

const visitsOf = ({ seed, nodes, peers, resumeMs }: SoakOptions, index: number) =>
  planVisits(seed * 1_000_003 + index, {
    nodes,
    rooms: Math.ceil(roomsFor(peers) / ACCOUNTS),
    resumeMs,
  });

/** Creates the peers: mostly legacy clients, which hear in different ways, and a few browsers. */
async function castPeers({ peers }: SoakOptions, accounts: SoakAccount[]): Promise<Persona[]> {
  const opus = await opusTone(440, 0.3, SAY_MS);
  const pcm = sampleTone({ codec: 'pcm_s16le', rateHz: 16_000, channels: 1 }, 440, 0.3, SAY_MS);
  return Array.from({ length: peers }, (_, index) => {
    const isBrowser = index % 20 === 0;
    const isPcm = index % 5 === 1;
    const audio = isPcm ? 'pcm_s16le;rate=16000;channels=1' : 'opus';
    return {
      name: `peer ${index}`,
      account: accounts[index % accounts.length]!,
      isBrowser,
      query: { audio, delivery: index % 5 === 2 ? 'forward' : 'mix' },
      sound: isPcm ? pcm : opus,
    };
  });
}

/** Lets many peers come at the same moment; half of them are cut off. */
function burstOf(fault: Fault, cast: Persona[], options: SoakOptions, parts: PeerParts) {
  return Array.from({ length: BURST_PEERS }, (_, index) => {
    const like = cast[index % cast.length]!;
    const name = `burst ${Math.round(fault.atMs)} ${index}`;
    const peer = new SoakPeer({ ...like, name, isBrowser: false }, parts);
    const ends = index % 2 === 0 ? 'close' : 'vanish';
    return peer.run([
      {
        awayMs: 0,
        node: index % options.nodes,
        comes: 'anew',
        room: 'room 0',
        isRoomInQuery: true,
        acts: [{ type: 'idle', ms: BURST_STAYS_MS }],
        ends,
      },
    ]);
  });
}

/** Injects the faults one after the other, each at its time. */
async function injectAll(
  { minutes, seed, peers, nodes, faults: kinds }: SoakOptions,
  world: World,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<InjectedFault[]> {
  const startMs = performance.now();
  const injected: InjectedFault[] = [];
  for (const fault of planFaults({ seed, durationMs: minutes * 60_000, peers, nodes, kinds })) {
    const waitMs = startMs + fault.atMs - performance.now();
    await delay(Math.max(0, waitMs), undefined, { signal });
    const startedMs = performance.now() - startMs;
    const what = await inject(fault, world).catch((reason: Error) => `not done: ${reason.message}`);
    const tookMs = performance.now() - startMs - startedMs;
    injected.push({ ...fault, startedMs, tookMs, what });
    log(`${(startedMs / 1000).toFixed(1)} s: ${fault.kind}, ${what}`);
  }
  return injected;
}
