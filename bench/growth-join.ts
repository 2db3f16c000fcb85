import { setTimeout as sleep } from 'node:timers/promises';
import { TestClient } from '../test/support/client.ts';
import type { Nodes } from './nodes.ts';
import { quantile } from './percentiles.ts';

const WARM_UP_JOINS = 20;
const JOINS = 100;
/** Wait after each leave, ms, in which the empty room is closed. */
const CLOSING_MS = 20;
/** Maximum median of a join, ms: longer ones are noticed. */
const GOAL_P50_MS = 50;

/** Connects a client to a node, into a room or into the lobby. */
export function connectPeer(nodes: Nodes, node: number, peer: string, room = '__lobby__') {
  const query = { room, peer, api_key: nodes.apiKey, audio: 'opus' };
  return TestClient.connect(nodes.url(node), query);
}

/** Measures the time of a join: until the peer is in the room, and until the others are told. */
export async function reportJoins(
  print: (text: string) => void,
  nodes: Nodes,
  signal: AbortSignal,
) {
  print(`
| join, ${JOINS} times | p50 / p99 | goal |
| --- | --- | --- |
`);
  const alone = await measure(nodes, [], signal);
  print(reportRow('to `joined`, into a room that opens with it', alone.joinedMs));
  const first = await measure(nodes, [1], signal);
  print(reportRow('to `joined`, where there are others only on another node', first.joinedMs));
  print(reportRow('to `peer_joined` on the other node', first.told[0]!));
  const there = await measure(nodes, [0, 1], signal);
  print(reportRow('to `joined`, where there are others on both nodes', there.joinedMs));
  print(reportRow('to `peer_joined` on the same node', there.told[0]!));
  print(reportRow('to `peer_joined` on the other node', there.told[1]!));
}

export function reportRow(what: string, latenciesMs: number[]): string {
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  const [p50Ms, p99Ms] = [quantile(sorted, 0.5), quantile(sorted, 0.99)];
  const goal = `p50 ${GOAL_P50_MS} ms${p50Ms <= GOAL_P50_MS ? '' : ', NOT MET'}`;
  return `| ${what} | ${p50Ms.toFixed(1)} / ${p99Ms.toFixed(1)} ms | ${goal} |\n`;
}

/** @param where indexes of nodes on which another peer is already in the room */
async function measure(nodes: Nodes, where: number[], signal: AbortSignal) {
  const room = `join-${where.join('-')}`;
  const others = await Promise.all(
    where.map(async (node) => {
      const other = await connectPeer(nodes, node, `on ${node}`, room);
      await other.next('joined');
      return other;
    }),
  );
  const joiner = await connectPeer(nodes, 0, 'joiner');
  await joiner.next('welcome');
  const joinedMs: number[] = [];
  const told: number[][] = where.map(() => []);
  for (let join = 0; join < WARM_UP_JOINS + JOINS; join += 1) {
    const startMs = performance.now();
    const since = async (said: Promise<unknown>) => {
      await said;
      return performance.now() - startMs;
    };
    const heard = others.map((other) => since(other.next('peer_joined', other.messages.length)));
    const ownMs = await since(joiner.ask({ type: 'join', room }, 'joined'));
    const othersMs = await Promise.all(heard);
    if (join >= WARM_UP_JOINS) {
      joinedMs.push(ownMs);
      for (const [index, ms] of othersMs.entries()) told[index]!.push(ms);
    }
    const gone = others.map((other) => other.next('peer_left', other.messages.length));
    await Promise.all([joiner.ask({ type: 'leave' }, 'left'), ...gone]);
    await sleep(CLOSING_MS, undefined, { signal });
  }
  await Promise.all([joiner, ...others].map((client) => client.close()));
  return { joinedMs, told };
}
