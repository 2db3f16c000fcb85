import { describe, expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import type { Bus } from '../../../src/cluster/bus.ts';
import { PeerTakeover } from '../../../src/admission/peer-takeover.ts';
import { SuspendedPeers } from '../../../src/session/suspended-peers.ts';
import type { Session } from '../../../src/session/session.ts';
import { Sessions } from '../../../src/admission/sessions.ts';

type Listener = (message: object) => void;

/** Nodes whose messages to each other arrive when the test says so. */
function openNode(places = new SuspendedPeers(0)) {
  const listeners = new Map<string, Listener>();
  const bus = { on: (type: string, _schema: object, on: Listener) => listeners.set(type, on) };
  const sessions = new Sessions(DEFAULT_TIMINGS.sessions);
  const takeover = new PeerTakeover(
    bus as unknown as Bus,
    sessions,
    places,
    DEFAULT_TIMINGS.sessions,
  );
  const closed: string[] = [];
  const add = (connectionId: string, order: number) => {
    const close = () => {
      closed.push(connectionId);
      sessions.delete(session);
    };
    const session = {
      name: 'ada',
      account: { id: 1 },
      connectionId,
      order,
      replaceSoon: close,
      replace: close,
    } as unknown as Session;
    sessions.add(session);
    return session;
  };
  const hear = (connectionId: string, order: number) =>
    listeners.get('arrived')!({ accountId: 1, peer: 'ada', connectionId, order });
  const settle = (room: string) => listeners.get('settled')!({ ...ada('newer'), order: 101, room });
  const end = () => [...sessions.of(1)].forEach((session) => sessions.delete(session));
  return { takeover, add, hear, settle, closed, end };
}

const ada = (connectionId: string) => ({ accountId: 1, peer: 'ada', connectionId });
const isReplaced = expect.objectContaining({ code: 'replaced' });

describe('two connections of a peer at the same moment', () => {
  test('to two nodes, each there before it hears of the other: the newer one stays', () => {
    const [one, other] = [openNode(), openNode()];
    one.add('older', 100);
    other.add('newer', 101);
    one.hear('newer', 101);
    other.hear('older', 100);
    expect([one.closed, other.closed]).toEqual([['older'], []]);
    other.end();
  });

  test('to two nodes, one of which hears of the newer one first: the older one is not let in', () => {
    const node = openNode();
    node.hear('newer', 101);
    expect(() => node.takeover.checkNewest(ada('older'), 100)).toThrow(isReplaced);
    node.takeover.checkNewest(ada('newest'), 102);
  });

  test('to two others, the newer one of which is heard of first: the older one is not let in', () => {
    const node = openNode();
    node.hear('newest', 102);
    node.hear('older', 100);
    expect(() => node.takeover.checkNewest(ada('newer'), 101)).toThrow(isReplaced);
  });

  test('to one node: the older one does not replace the newer one', () => {
    const node = openNode();
    node.add('newer', 101);
    expect(() => node.takeover.checkNewest(ada('older'), 100)).toThrow(isReplaced);
    expect(node.closed).toEqual([]);
    node.end();
  });
});

test('a place in the room in which its peer is on another node is left to the room, and one in another room ends', () => {
  const ended: string[] = [];
  const kept = { place: { room: 'a' }, end: (reason: string) => ended.push(reason) };
  const node = openNode({ get: () => kept } as unknown as SuspendedPeers);
  node.settle('a');
  expect(ended).toEqual([]);
  node.settle('b');
  expect(ended).toEqual(['moved']);
});
