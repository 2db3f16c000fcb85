import { KEY_PREFIX } from '../../src/store/keys.ts';
import { TestClient } from '../../test/support/client.ts';
import { atMost, type Claim, claim } from './claim.ts';
import type { Ledger } from './ledger.ts';
import {
  countDescriptors,
  countMediaWorkerDescriptors,
  inspect,
  type RunningNode,
  type SoakNodes,
} from './nodes.ts';
import type { SoakOptions } from './options.ts';
import { readRedis } from './redis-keys.ts';
import { get, type NodeSample, readMetrics, type Sampler } from './sampler.ts';
import type { EventCounts } from './event-counts.ts';

/** An account of the soak, with its key. */
export type SoakAccount = { id: number; apiKey: string };

/** Data by which claims are judged. */
export type Seen = {
  options: SoakOptions;
  nodes: SoakNodes;
  accounts: SoakAccount[];
  redisUrl: string;
  ledger: Ledger;
  tally: EventCounts;
  sampler: Sampler;
  ghosts: string[];
};

/**
 * Maximum growth of the number of descriptors since the start: a process that has worked holds 5 more,
 * however long it has run.
 */
const DESCRIPTOR_TOLERANCE = 6;
const RESOURCE_TOLERANCE = 3;
/**
 * Maximum growth of memory from the second third of the soak to the last: the allocator keeps memory that it
 * once had.
 */
const MAX_MEMORY_GROWTH = 0.1;
/** Minutes at the beginning in which code is compiled and heaps find their size. */
const SHORT_MINUTES = 10;
const MAX_MEMORY_GROWTH_SHORT = 0.4;
/** Log lines that injected faults cause; any other line at level error is a fault of the gateway. */
const EXPECTED_ERRORS = [
  'media worker died',
  'media worker hangs; killed',
  'media worker not replaced',
  'process ended; restarting',
  'mixing thread lost',
];
const ERROR_LEVEL = 50;

export async function checkClaims(seen: Seen): Promise<Claim[]> {
  const { nodes, options, sampler } = seen;
  // Before any HTTP request, which opens sockets.
  const held = await Promise.all(nodes.up.map(checkHeld));
  return [
    claim('gateways that ended by themselves', 'none', listed(nodes.crashes), 'none'),
    claim('logged faults that the soak did not cause', 'none', unexpectedErrors(nodes), 'none'),
    claim(
      'clients told of an internal error',
      '0',
      String(seen.tally.of('told internal_error')),
      '0',
    ),
    claim(
      'peers seen in rooms by newcomers, when all have left',
      'none',
      listed(seen.ghosts),
      'none',
    ),
    ...(await Promise.all(nodes.up.map(checkPresent))),
    ...held.flat(),
    ...(await checkRedis(seen)),
    ...(await Promise.all(seen.accounts.map((account) => checkUsage(account, seen)))),
    ...checkMemory(options, sampler.nodeSamples),
  ];
}

/** Enters each room on each node, and leaves it. @returns the peers that were there */
export async function findGhosts(nodes: SoakNodes, accounts: SoakAccount[], rooms: number) {
  const ghosts: string[] = [];
  for (const { url, index } of nodes.up) {
    for (const { apiKey } of accounts) {
      const client = await TestClient.connect(url, {
        room: '__lobby__',
        peer: 'newcomer',
        api_key: apiKey,
        audio: 'opus',
      });
      for (let room = 0; room < rooms; room += 1) {
        const { peers } = await client.ask({ type: 'join', room: `room ${room}` }, 'joined');
        ghosts.push(...peers.map(({ peer }) => `${peer} in room ${room} on node ${index}`));
        await client.ask({ type: 'leave' }, 'left');
      }
      await client.close();
    }
  }
  return ghosts;
}

async function checkPresent({ url, index }: RunningNode): Promise<Claim> {
  const metrics = await readMetrics(url);
  const open = ['sessions', 'rooms', 'websocket_peers', 'webrtc_peers'].map(
    (name) => metrics[`partyline_${name}`],
  );
  const what = `node ${index}: sessions, rooms, legacy peers, browsers`;
  return claim(what, '0, 0, 0, 0', open.join(', '), '0, 0, 0, 0');
}

async function checkHeld({ pid, index, process, atStart }: RunningNode): Promise<Claim[]> {
  const descriptors = countDescriptors(pid);
  const now = await inspect(process);
  const more = Object.entries(now.resources).filter(
    ([kind, count]) => count > (atStart.inspection.resources[kind] ?? 0) + RESOURCE_TOLERANCE,
  );
  const on = `node ${index}:`;
  return [
    claim(
      `${on} routers in its media workers, and transports, producers, consumers, observers`,
      '0, 0',
      `${now.routers}, ${now.mediaObjects}`,
      '0, 0',
    ),
    atMost(`${on} file descriptors`, descriptors, atStart.descriptors, DESCRIPTOR_TOLERANCE),
    atMost(
      `${on} file descriptors of its media workers`,
      countMediaWorkerDescriptors(pid),
      atStart.mediaWorkerDescriptors,
      0,
    ),
    claim(
      `${on} timers, sockets, handles`,
      `of each kind, at most ${RESOURCE_TOLERANCE} more than at its start`,
      more.length === 0
        ? 'as expected'
        : more.map(([kind, count]) => `${count} ${kind}`).join(', '),
      'as expected',
    ),
  ];
}

async function checkRedis({ redisUrl, nodes, accounts }: Seen): Promise<Claim[]> {
  const { left, nodes: known, channels } = await readRedis(redisUrl);
  const rooms = channels.filter((channel) => channel.startsWith(`${KEY_PREFIX}room:`));
  const [node] = nodes.up;
  const metrics = node ? await readMetrics(node.url) : {};
  const connections = await Promise.all(accounts.map(({ apiKey }) => countCcu(node?.url, apiKey)));
  return [
    claim('Redis keys that should have gone', 'none', listed(left), 'none'),
    claim(
      'nodes that Redis knows',
      String(nodes.up.length),
      String(known),
      String(nodes.up.length),
    ),
    claim('rooms that are subscribed to', 'none', listed(rooms), 'none'),
    claim('connections that count', '0, 0, 0', connections.join(', '), '0, 0, 0'),
    claim('minutes that wait to be closed', '0', String(metrics['partyline_open_minutes']), '0'),
  ];
}

async function checkUsage({ id, apiKey }: SoakAccount, { nodes, ledger }: Seen): Promise<Claim> {
  const { total_seconds: found } = await ask<{ total_seconds: number }>(
    nodes.up[0]?.url,
    '/api/usage',
    apiKey,
  );
  const { seenS, leastS, mostS, doubtfulS } = ledger.expected(id);
  return {
    name: `usage of account ${id}`,
    expected: `${seenS.toFixed(1)} s as its clients saw it; ${leastS.toFixed(1)} to ${mostS.toFixed(1)} s (${doubtfulS.toFixed(1)} s may be lost)`,
    found: `${found.toFixed(1)} s`,
    isOk: found >= leastS && found <= mostS,
  };
}

/** Judges the memory of the first node, which lives from the beginning to the end. */
function checkMemory({ minutes }: SoakOptions, samples: NodeSample[]): Claim[] {
  const lasting = samples.filter(({ index }) => index === 0);
  const third = lasting.length / 3;
  const growth = minutes < SHORT_MINUTES ? MAX_MEMORY_GROWTH_SHORT : MAX_MEMORY_GROWTH;
  return (['residentMb', 'mediaWorkersMb'] as const).map((figure) => {
    const mean = (of: NodeSample[]) =>
      of.reduce((sum, sample) => sum + sample[figure], 0) / of.length;
    const second = mean(lasting.slice(third, 2 * third));
    const last = mean(lasting.slice(2 * third));
    const what = figure === 'residentMb' ? 'resident memory' : 'that of its media workers';
    return {
      name: `node 0: ${what}, mean of the last third`,
      expected: `at most ${(100 * growth).toFixed(0)} % above the second third's ${second.toFixed(1)} MB`,
      found: `${last.toFixed(1)} MB (${(100 * (last / second - 1)).toFixed(1)} %)`,
      isOk: last <= second * (1 + growth),
    };
  });
}

function unexpectedErrors(nodes: SoakNodes): string {
  const outputs = [...nodes.outputs, ...nodes.up.map(({ process }) => process.output)];
  const lines = outputs.flatMap((output) => output.split('\n'));
  const faults = new Map<string, number>();
  for (const line of lines) {
    const fault = faultIn(line);
    if (fault !== undefined) faults.set(fault, (faults.get(fault) ?? 0) + 1);
  }
  return listed([...faults].map(([fault, count]) => `${count} × ${fault}`));
}

/** Returns the error in a line of output, if it is unexpected. */
function faultIn(line: string): string | undefined {
  if (!line.startsWith('{')) return /Error|Warning|Unhandled/.test(line) ? line : undefined;
  try {
    const { level, msg, err } = JSON.parse(line) as { level: number; msg: string; err?: Error };
    if (level < ERROR_LEVEL || EXPECTED_ERRORS.includes(msg)) return undefined;
    return `${msg}: ${err?.message ?? ''}`;
  } catch {
    // The gateway was killed while it wrote the line.
    return undefined;
  }
}

async function countCcu(url: string | undefined, apiKey: string): Promise<number> {
  const { summary } = await ask<{ summary: { current_ccu: number } }>(url, '/api/me', apiKey);
  return summary.current_ccu;
}

async function ask<T>(url: string | undefined, path: string, apiKey: string): Promise<T> {
  if (url === undefined) throw new Error('no node is up');
  const response = await get(new URL(path, url), { authorization: `Bearer ${apiKey}` });
  return (await response.json()) as T;
}

const listed = (items: string[]) => (items.length === 0 ? 'none' : items.join('; '));
