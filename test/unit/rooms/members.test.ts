import { expect, test } from 'vitest';
import { Members, type MembersParts } from '../../../src/rooms/members.ts';
import type { WebSocketPeer } from '../../../src/rooms/websocket-peer.ts';

/** A room with one peer of this node; records with which `isElsewhere` its leave is reported. */
function openMembers() {
  const told: boolean[] = [];
  const parts = {
    meterPeer: () => () => {},
    meterSize: () => {},
    onJoined: () => {},
    onLeft: (...[, , , , isElsewhere]: Parameters<MembersParts['onLeft']>) =>
      told.push(isElsewhere),
    slices: { add: () => {} },
  } as unknown as MembersParts;
  const members = new Members({ accountId: 1, name: 'a' }, parts, () => {});
  const ada = {
    name: 'ada',
    kind: 'websocket',
    notifyLater: () => false,
    replace: () => members.leave(ada, 'replaced'),
  } as unknown as WebSocketPeer;
  members.enter(ada);
  return { members, ada, told };
}

test('the kept place of a peer that is connected to another node ends as one that is elsewhere', () => {
  const { members, ada, told } = openMembers();
  members.suspend(ada);
  const there = { peer: 'ada', kind: 'websocket', place: 'p', away: false, muted: false } as const;
  members.updateRemote('other', [there], new Map());
  expect(told).toEqual([true]);
});

const bobAt = (place: string, away: boolean) =>
  ({ peer: 'bob', kind: 'websocket', place, away, muted: false }) as const;

test.each(['another node', 'this node'])(
  'a kept place that is announced after its peer has come to %s is void: the peer leaves with its connection',
  (where) => {
    const { members, ada } = openMembers();
    const isHere = where === 'this node';
    const bob = Object.assign(Object.create(ada) as WebSocketPeer, { name: 'bob' });
    members.updateRemote('one', [bobAt('p', false)], new Map());
    if (isHere) members.enter(bob);
    else members.updateRemote('other', [bobAt('q', false)], new Map());
    members.updateRemote('one', [bobAt('p', true)], new Map());
    if (isHere) members.leave(bob, 'left');
    else members.updateRemote('other', [], new Map([['bob', 'left']]));
    expect(members.has('bob')).toBe(false);
    // The place stays void, whatever its node writes until it gives it up.
    members.updateRemote('one', [bobAt('p', true)], new Map());
    expect(members.has('bob')).toBe(false);
  },
);

test('a kept place that is announced while its peer has no other connection counts', () => {
  const { members } = openMembers();
  members.updateRemote('one', [bobAt('p', true)], new Map());
  expect(members.has('bob')).toBe(true);
});

test('a peer that leaves its room is not elsewhere', () => {
  const { members, ada, told } = openMembers();
  members.leave(ada, 'left');
  expect(told).toEqual([false]);
});
