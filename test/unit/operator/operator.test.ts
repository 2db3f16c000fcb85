import { expect, test } from 'vitest';
import { keyText, mergeRooms, parseKey, selectRooms } from '../../../src/operator/room-lists.ts';
import type { NodeDescription, RoomSummary } from '../../../src/operator/schemas.ts';
import { followNodes, type KnownNode } from '../../../web/admin/known-nodes.ts';

const room = (account_id: number, name: string, more: Partial<RoomSummary> = {}): RoomSummary => ({
  account_id,
  room: name,
  websocket: 1,
  webrtc: 0,
  away: 0,
  talking: 0,
  ...more,
});
const node = (id: string) => ({ id, state: 'running' }) as NodeDescription;
const statesOf = (nodes: KnownNode[]) => nodes.map(({ id, state }) => `${id} ${state}`);

test('rooms are by account, then by name, and come after the one that is named', () => {
  const rooms = [room(10, 'a'), room(2, 'b'), room(2, 'B'), room(2, 'a')];
  const names = (after?: { account_id: number; room: string }, limit = 10) =>
    selectRooms(rooms, { limit, search: '', ...(after && { after }) }).map(keyText);
  expect(names()).toEqual(['2/B', '2/a', '2/b', '10/a']);
  expect(names({ account_id: 2, room: 'a' })).toEqual(['2/b', '10/a']);
  // It may have gone since.
  expect(names({ account_id: 2, room: 'aa' }, 1)).toEqual(['2/b']);
});

test('the parts of a room on several nodes are added up, and stay unchanged', () => {
  const parts = [room(1, 'a', { webrtc: 2, talking: 1 }), room(1, 'b'), room(1, 'a', { away: 1 })];
  expect(mergeRooms(parts)).toEqual([
    room(1, 'a', { websocket: 2, webrtc: 2, away: 1, talking: 1 }),
    room(1, 'b'),
  ]);
  expect(parts[0]).toEqual(room(1, 'a', { webrtc: 2, talking: 1 }));
});

test('a place in the list is text and back, whatever the name', () => {
  for (const name of ['a', '1/2', 'a\u2028b', '😀 ']) {
    const key = { account_id: 7, room: name };
    expect(parseKey(keyText(key))).toEqual(key);
  }
  for (const text of ['', '7', '7/', '/a', '0/a', '-1/a', 'x/a']) {
    expect(parseKey(text)).toBeUndefined();
  }
});

test('a node that is not told of any more has gone, and is shown for a minute', () => {
  const both = followNodes([], { nodes: [node('a'), node('b')], unreachable: ['c'] }, 0);
  expect(statesOf(both)).toEqual(['a running', 'b running', 'c unreachable']);
  const silent = followNodes(both, { nodes: [node('a')], unreachable: ['b'] }, 1000);
  expect(statesOf(silent)).toEqual(['a running', 'b unreachable', 'c gone']);
  expect(silent[1]!.description).toEqual(node('b'));
  const back = followNodes(silent, { nodes: [node('b')], unreachable: [] }, 30_000);
  expect(statesOf(back)).toEqual(['a gone', 'b running', 'c gone']);
  const later = followNodes(back, { nodes: [node('b')], unreachable: [] }, 61_000);
  expect(statesOf(later)).toEqual(['a gone', 'b running']);
});
