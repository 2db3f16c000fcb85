import { existsSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { parseSentinelUrl } from '../../config/sentinel-url.ts';
import type { Timings } from '../../config/timings.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { RedisAddress } from './client.ts';
import { contentOf, lockDataDir, openDataDir, readDataDirUser, socketPathIn } from './data-dir.ts';
import { probeRedis } from './redis-probe.ts';
import { type HeldDataDir, RedisServer } from './redis-server.ts';

/** The Redis to use: the operator's, or the gateway's own with a data folder. */

type RedisSettings = { REDIS_URL: string; DATA_DIR: string; SENTINEL_PASSWORD?: string };
type RedisOptions = {
  settings: RedisSettings;
  timings: Timings['redis'];
  /** Stack that closes the gateway's own Redis, if one is started. */
  opened: AsyncDisposableStack;
  log: FastifyBaseLogger;
  /** Aborts the wait. */
  abort?: AbortSignal | undefined;
};

const SOCKET_SCHEME = 'unix://';
const POLL_MS = 50;
const START_ADVICE = 'start the gateway first, or set DATA_DIR or REDIS_URL';

/** Returns the address of Redis: the operator's, or the gateway's own, which listens in its data folder while it runs. */
export function redisAddressOf(settings: RedisSettings): RedisAddress {
  const { REDIS_URL: url, DATA_DIR: dataDir, SENTINEL_PASSWORD: sentinelPassword = '' } = settings;
  const watched = parseSentinelUrl(url);
  if (watched) return { watched, sentinelPassword };
  const own = socketPathIn(dataDir);
  if (url === '' || url === SOCKET_SCHEME + own) return { socketPath: own, dataDir };
  return url.startsWith(SOCKET_SCHEME) ? { socketPath: url.slice(SOCKET_SCHEME.length) } : { url };
}

/** Redis to use: its URL, and its server if it is the gateway's own. */
type OpenedRedis = { url: string; server?: RedisServer };

/**
 * Returns the operator's Redis, or starts an own one for a gateway.
 * @throws {Error} if another process owns the data folder, or as {@link openDataDir} and {@link RedisServer.start}
 */
export async function openRedis(opening: RedisOptions): Promise<OpenedRedis> {
  const { settings, timings, abort } = opening;
  const { REDIS_URL: url, DATA_DIR: dataDir } = settings;
  if (url !== '') return { url };
  const owner = await openDataDir(dataDir);
  const deadlineMs = performance.now() + timings.ownerWaitMs;
  for (;;) {
    const lock = lockDataDir(dataDir, 'gateway');
    // A server that does not use the lock may listen there.
    const probe = await probeRedis(socketPathIn(dataDir), timings.checkServerEveryMs);
    if (lock && probe.state === 'absent') {
      const server = await startServer({ ...opening, held: { dataDir, owner, lock } });
      return { url: SOCKET_SCHEME + server.socketPath, server };
    }
    lock?.release();
    // A killed owner takes a moment to release the lock.
    if (performance.now() > deadlineMs) throw new Error(await whoUses(dataDir, timings));
    await wait(POLL_MS, undefined, { signal: abort });
  }
}

/**
 * Provides a Redis for the operator's command: the operator's, that of a running gateway, or one of the
 * command's own.
 * @param onNew called if that one is new, and so has no accounts
 * @throws {Error} if there is no data folder, or its gateway has another Redis, or its owner's Redis does not answer
 */
export async function openCommandRedis(opening: RedisOptions, onNew: () => void): Promise<void> {
  const { settings, timings, abort } = opening;
  const { REDIS_URL: url, DATA_DIR: dataDir } = settings;
  if (url !== '') return;
  // A mistyped folder would become an empty gateway.
  if (!existsSync(dataDir)) {
    throw new PartylineError('bad_request', `There is no folder ${dataDir}: ${START_ADVICE}.`);
  }
  const owner = await openDataDir(dataDir);
  const deadlineMs = performance.now() + timings.startWithinMs;
  for (;;) {
    const lock = lockDataDir(dataDir, 'command');
    const { state } = await probeRedis(socketPathIn(dataDir), timings.checkServerEveryMs);
    if (lock && state === 'absent') {
      const content = contentOf(dataDir);
      if (content === 'demo-key') {
        lock.release();
        const why = `DATA_DIR ${dataDir} has no Redis, and its gateway has used that of a REDIS_URL`;
        throw new PartylineError('bad_request', `${why}: ${START_ADVICE}.`);
      }
      if (content === 'nothing') onNew();
      await startServer({ ...opening, held: { dataDir, owner, lock } });
      return;
    }
    lock?.release();
    // Another command closes its Redis in a moment.
    const isTemporary = !lock && readDataDirUser(dataDir)?.what === 'command';
    if (state === 'answers' && !isTemporary) return;
    if (performance.now() > deadlineMs) throw new Error(await whoUses(dataDir, timings));
    await wait(POLL_MS, undefined, { signal: abort });
  }
}

async function startServer({
  held,
  timings,
  opened,
  log,
  abort,
}: RedisOptions & { held: HeldDataDir }): Promise<RedisServer> {
  const server = await RedisServer.start(held, timings, log, abort);
  return opened.adopt(server, (part) => part.close());
}

/** Describes why a data folder cannot be used. */
async function whoUses(dataDir: string, { checkServerEveryMs }: Timings['redis']): Promise<string> {
  const probe = await probeRedis(socketPathIn(dataDir), checkServerEveryMs);
  const user = readDataDirUser(dataDir);
  const who = user?.what === 'command' ? 'an accounts command' : 'another gateway';
  const uses = `${who} uses ${dataDir}${user ? ` (process ${user.pid})` : ''}`;
  const advice = 'stop it, or set DATA_DIR or REDIS_URL';
  if (probe.state === 'answers') return `${uses}: ${advice}`;
  const why = probe.state === 'silent' ? `does not answer (${probe.reason})` : 'is not there';
  return `${uses}, and its redis-server ${why}: ${advice}`;
}
