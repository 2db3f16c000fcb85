import { setTimeout as delay } from 'node:timers/promises';
import type { TestRedis } from '../../test/support/redis.ts';
import type { Ledger } from './ledger.ts';
import { mediaWorkersOf, type RunningNode, type SoakNodes, usageWorkersOf } from './nodes.ts';
import type { SoakPeer } from './peer.ts';
import type { Fault } from './plan.ts';

export type World = {
  nodes: SoakNodes;
  redis: TestRedis;
  ledger: Ledger;
  peers: SoakPeer[];
  /** Lets many peers come at once, and leave soon. */
  burst: (fault: Fault) => void;
};

const PAUSED_MS = 1000;
/** Time for which a media worker is stopped, ms: it is killed after 2 s, and replaced. */
const HUNG_MS = 4000;
const REDIS_AWAY_MS = 2000;
/** Time for which clients do not read, ms: after a second they are sent no audio, and are not closed. */
const UNREAD_MS = 9000;

/**
 * Injects a fault; resolves when the damage is repaired, if that is the caller's task.
 * @returns the processes or peers affected
 * @throws {Error} if the fault could not be injected
 */
export async function inject(fault: Fault, world: World): Promise<string> {
  const { nodes, redis, ledger, peers } = world;
  const node = nodes.pick(fault.node);
  switch (fault.kind) {
    case 'media-worker-killed':
      process.kill(aMediaWorkerOf(node), 'SIGKILL');
      return node.run;
    case 'media-worker-paused': {
      const mediaWorker = aMediaWorkerOf(node);
      process.kill(mediaWorker, 'SIGSTOP');
      await delay(PAUSED_MS);
      process.kill(mediaWorker, 'SIGCONT');
      return node.run;
    }
    case 'media-worker-hung':
      process.kill(aMediaWorkerOf(node), 'SIGSTOP');
      await delay(HUNG_MS);
      return node.run;
    case 'redis-hung':
      await withoutRedis(ledger, async () => {
        redis.hang();
        await delay(REDIS_AWAY_MS);
        redis.goOn();
      });
      return `for ${REDIS_AWAY_MS} ms`;
    case 'redis-killed':
      await withoutRedis(ledger, async () => {
        await redis.kill();
        await delay(PAUSED_MS);
        await redis.restart();
      });
      return `for ${PAUSED_MS} ms, and started with its append-only file`;
    case 'usage-worker-killed': {
      const workers = await usageWorkersOf(node.process);
      for (const pid of workers) process.kill(pid, 'SIGKILL');
      return `${node.run}: ${workers.length}`;
    }
    case 'gateway-killed':
      await nodes.replace(fault.node, 'SIGKILL', ({ run }) => {
        ledger.nodeWasKilled(run, performance.now());
      });
      return node.run;
    case 'gateway-drained':
      await nodes.replace(fault.node, 'SIGTERM', () => {});
      return node.run;
    case 'clients-do-not-read':
      for (const index of fault.peers) void peers[index]?.stopReading(UNREAD_MS);
      return `peers ${fault.peers.join(', ')}`;
    case 'burst':
      world.burst(fault);
      return node.run;
  }
}

function aMediaWorkerOf({ pid, run }: RunningNode): number {
  const [mediaWorker] = mediaWorkersOf(pid);
  if (mediaWorker === undefined) throw new Error(`${run} has no media worker now`);
  return mediaWorker;
}

async function withoutRedis(ledger: Ledger, away: () => Promise<void>): Promise<void> {
  const fromMs = performance.now();
  await away();
  ledger.redisWasAway(fromMs, performance.now());
}
