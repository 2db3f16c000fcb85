import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { Nodes } from '../../src/cluster/nodes.ts';
import { NODES } from '../../src/store/keys.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, cleanUps } = useStack();

const timings = timingsWith({ nodes: { beatEveryMs: 50, deadAfterMs: 1500 } }).nodes;

/** A node, what it logs, and a way to write heartbeats of another one, `aheadMs` ahead of Redis's clock. */
async function openNode() {
  const store = await openStore(await openRedis());
  const dead: string[] = [];
  const logged: string[] = [];
  const write = (line: string) => void logged.push((JSON.parse(line) as { msg: string }).msg);
  const { log } = Fastify({ logger: { stream: { write } } });
  const events = { onDead: (node: string) => void dead.push(node), onForgotten: () => {} };
  const nodes = await Nodes.open(store, log, events, timings);
  cleanUps.push(() => nodes.close());
  const beat = (aheadMs: number) =>
    store.run((client) =>
      client.departNode({ keys: [NODES], arguments: ['other', String(aheadMs)] }),
    );
  return { nodes, beat, dead, logged, store };
}

test('a node whose heartbeat stands still is dead', async () => {
  const { nodes, beat, dead, logged } = await openNode();
  await beat(0);
  await eventually('it lives', () => nodes.size === 2);
  await eventually('it is dead', () => nodes.size === 1);
  expect(dead).toEqual(['other']);
  expect(logged).toEqual(['node died']);
});

test.each([0, 500, 2000])(
  'a node that closes with entries for %s ms has left, and has not died',
  async (lastsMs) => {
    const { nodes, dead, logged, store } = await openNode();
    const events = { onDead: () => {}, onForgotten: () => {} };
    const other = await Nodes.open(store, silentLog, events, timings);
    await eventually('it lives', () => nodes.size === 2);
    await other.close(lastsMs);
    await eventually('its end is noticed', () => dead.length === 1);
    expect(dead).toEqual([other.id]);
    expect(logged).toEqual(['node has left']);
  },
);

test('a node that dates its last heartbeat ahead is dead only when that time is over', async () => {
  const { nodes, beat, dead } = await openNode();
  await beat(500);
  await eventually('it is dead', () => dead.length === 1);
  expect(nodes.size).toBe(1);
  expect(await nodes.list()).toEqual(new Set([nodes.id]));
});

test('a node whose heartbeats seemed ahead, because the clock of Redis stepped back, lives', async () => {
  const { nodes, beat } = await openNode();
  await beat(0);
  await eventually('it lives', () => nodes.size === 2);
  await beat(3_600_000);
  await eventually('it seems to have left', () => nodes.size === 1);
  await beat(0);
  await eventually('it lives', () => nodes.size === 2);
  expect(await nodes.list()).toEqual(new Set([nodes.id, 'other']));
});
