import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeAll, expect, test, vi } from 'vitest';
import type { Connection } from '../../../../packages/client/src/connection.ts';
import { RequestError } from '../../../../packages/client/src/errors.ts';
import { loadAudio } from '../../../../packages/client/src/load-audio.ts';
import type { Room } from '../../../../packages/client/src/room.ts';
import { TransportKeeper } from '../../../../packages/client/src/transport-keeper.ts';
import {
  type Health,
  TransportChooser,
} from '../../../../packages/client/src/transport-chooser.ts';
import { Wire } from '../../../../packages/client/src/wire.ts';

/** Changes of way while the client does something else. */

const BROKEN: Health = {
  transport: 'webrtc',
  pathlessMs: 0,
  isBroken: true,
  isOneWay: false,
};
const OVER_WEBSOCKET: Health = { ...BROKEN, transport: 'websocket', isBroken: false };

/** A client in a room whose path is broken. */
function openKeeper() {
  const changes: string[] = [];
  const room = {
    health: () => Promise.resolve(BROKEN),
    isAsking: false,
    isReady: true,
    change: (transport: string) => {
      changes.push(transport);
      return Promise.resolve();
    },
  };
  const place: { room: Room | undefined } = { room: room as unknown as Room };
  const memory = { isBlocked: () => false, setBlocked: () => undefined };
  const chooser = new TransportChooser(['webrtc', 'websocket'], memory);
  const nothing = () => undefined;
  const parts = { chooser, room: () => place.room, lobby: nothing, changed: nothing };
  const keeper = new TransportKeeper(parts);
  return { keeper, place, room, chooser, changes };
}

// A change that is loaded already waits for no more than a few turns of the event loop.
beforeAll(async () => {
  await loadAudio('webrtc');
});

test('a room whose path is broken goes another way', async () => {
  const { keeper, changes } = openKeeper();
  await keeper.look();
  await vi.waitFor(() => expect(changes).toEqual(['websocket']), { timeout: 10_000 });
});

test('nothing is changed while it is not known whether the WebSocket still carries anything', async () => {
  const { keeper, room, changes } = openKeeper();
  room.isAsking = true;
  await keeper.look();
  await nextTurn();
  expect(changes).toEqual([]);
  room.isAsking = false;
  await keeper.look();
  await vi.waitFor(() => expect(changes).toEqual(['websocket']), { timeout: 10_000 });
});

test('a room that is left before the other way is loaded is not joined again', async () => {
  const { keeper, place, room, chooser, changes } = openKeeper();
  room.health = () => Promise.resolve(OVER_WEBSOCKET);
  chooser.onNetwork('192.0.2.0/24', 0); // WebRTC is tried at once
  await keeper.look();
  const { room: left } = place;
  place.room = undefined;
  await loadAudio('webrtc');
  await nextTurn();
  expect(changes).toEqual([]);
  // The keeper is free for the next room.
  place.room = left;
  await keeper.look();
  await vi.waitFor(() => expect(changes).toEqual(['webrtc']), { timeout: 10_000 });
});

test.each([
  ['no_path', 'no_path'],
  // The gateway answered too late, or its media worker died.
  ['media_lost', 'refused'],
  ['left', 'interrupted'],
  ['overloaded', 'refused'],
])('a way back that ends with %s has failed by %s', async (code, cause) => {
  const { keeper, room, chooser } = openKeeper();
  room.health = () => Promise.resolve(OVER_WEBSOCKET);
  room.change = () => Promise.reject(new RequestError(code, 'No.', true));
  const failed = vi.spyOn(chooser, 'failed');
  chooser.onNetwork('192.0.2.0/24', 0);
  await keeper.look();
  await vi.waitFor(() => expect(failed).toHaveBeenCalledWith('webrtc', expect.any(Number), cause), {
    timeout: 10_000,
  });
});

test('a room whose health is never told does not keep the next one from being looked at', async () => {
  const { keeper, place, room, changes } = openKeeper();
  room.health = () => new Promise(() => undefined);
  void keeper.look();
  place.room = { ...room, health: () => Promise.resolve(BROKEN) } as unknown as Room;
  await keeper.look();
  await vi.waitFor(() => expect(changes).toEqual(['websocket']), { timeout: 10_000 });
});

test('a room that was left asks nothing any more', async () => {
  const sent: string[] = [];
  const connection = {
    request: ({ type }: { type: string }) => {
      sent.push(type);
      return Promise.resolve({});
    },
  } as unknown as Connection;
  const wire = new Wire(connection);
  await wire.request({ type: 'configure', volume: {} });
  const late = wire.request({ type: 'join', room: 'kitchen' });
  wire.close();
  await expect(late).rejects.toMatchObject({ code: 'left' });
  const later = wire.request({ type: 'join', room: 'kitchen' });
  await expect(later).rejects.toMatchObject({ code: 'left' });
  expect(sent).toEqual(['configure']);
});
