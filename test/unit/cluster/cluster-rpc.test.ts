import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import type { Bus } from '../../../src/cluster/bus.ts';
import { ClusterRpc } from '../../../src/cluster/cluster-rpc.ts';
import type { Nodes } from '../../../src/cluster/nodes.ts';
import { silentLog } from '../../support/gateway.ts';
import { standStill } from '../../support/stand-still.ts';

test('a reply counts that came while the calling process stood still', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const other = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [accepted] = (await once(server, 'connection')) as [Socket];
  const nodes = { id: 'one', list: async () => new Set(['one', 'two']) } as unknown as Nodes;
  const bus = {
    on: (kind: string, _schema: unknown, handler: (body: unknown, from: string) => void) => {
      if (kind !== 'answer') return;
      accepted.once('data', (id) => handler({ id: id.toString(), answer: 'yes' }, 'two'));
    },
    // The other node answers at once.
    sendTo: async (_node: string, _kind: string, { id }: { id: string }) => void other.write(id),
  } as unknown as Bus;
  const { nodes: timings } = DEFAULT_TIMINGS;
  const rpc = new ClusterRpc(nodes, bus, silentLog, timings);
  const call = rpc.handle('question', Type.Null(), Type.String(), () => 'yes');
  const answered = call(null, 'two');
  await new Promise((resolve) => setImmediate(resolve));
  standStill(2 * timings.answerWithinMs);
  expect(await answered).toEqual({ replies: new Map([['two', 'yes']]), unreachable: [] });
  other.destroy();
  accepted.destroy();
  server.close();
});

test('replies of nodes that were not called, and second replies of a node, are ignored', async () => {
  let give: (body: unknown, from: string) => void = () => {};
  const bus = {
    on: (kind: string, _schema: unknown, handler: typeof give) => {
      if (kind === 'answer') give = handler;
    },
    send: async (_kind: string, { id }: { id: string }) => {
      give({ id, answer: 'no' }, 'three');
      give({ id, answer: 'yes' }, 'one');
      give({ id, answer: 'no' }, 'one');
      give({ id, answer: 'yes' }, 'two');
    },
  } as unknown as Bus;
  const nodes = { id: 'self', list: async () => new Set(['one', 'two']) } as unknown as Nodes;
  const rpc = new ClusterRpc(nodes, bus, silentLog, DEFAULT_TIMINGS.nodes);
  const { replies } = await rpc.handle('question', Type.Null(), Type.String(), () => 'yes')(null);
  expect([...replies]).toEqual([
    ['one', 'yes'],
    ['two', 'yes'],
  ]);
});
