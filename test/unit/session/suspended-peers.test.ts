import { expect, test } from 'vitest';
import type { WebSocketPeer } from '../../../src/rooms/websocket-peer.ts';
import { SuspendedPeers, type SuspendedPlace } from '../../../src/session/suspended-peers.ts';
import { silentLog } from '../../support/gateway.ts';

/** A peer whose connection was lost, and why its place ended. */
function keep(places: SuspendedPeers) {
  const ended: string[] = [];
  const place = {
    account: { id: 1 },
    room: 'a',
    peer: {
      name: 'ada',
      suspend: () => {},
      close: (reason: string) => ended.push(reason),
    } as unknown as WebSocketPeer,
    log: silentLog,
    reason: 'closed',
    release: () => {},
  } as unknown as SuspendedPlace;
  places.keep(place);
  return { kept: places.get(1, 'ada')!, ended };
}

test('a fault of its peer ends a kept place', () => {
  const places = new SuspendedPeers(60_000);
  const { kept, ended } = keep(places);
  kept.fail(new Error('no media'));
  expect(ended).toEqual(['closed']);
  expect(places.size).toBe(0);
});

test('a node that goes away leaves its places in their rooms, whatever happens to their peers', () => {
  const places = new SuspendedPeers(60_000);
  const { kept, ended } = keep(places);
  places.close();
  kept.fail(new Error('no media'));
  expect(ended).toEqual([]);
});
