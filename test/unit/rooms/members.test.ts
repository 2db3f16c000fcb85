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

test('a peer that leaves its room is not elsewhere', () => {
  const { members, ada, told } = openMembers();
  members.leave(ada, 'left');
  expect(told).toEqual([false]);
});
