import type { RoomReference, RoomQuery, RoomSummary } from './schemas.ts';

/**
 * List of rooms, sorted by account, then by name; each node makes its part, and the node that was asked
 * merges the parts. Pure.
 */

function compareRooms(a: RoomReference, b: RoomReference): number {
  if (a.account_id !== b.account_id) return a.account_id - b.account_id;
  if (a.room === b.room) return 0;
  return a.room < b.room ? -1 : 1;
}

/** Returns the rooms that match a query, in the list's order. */
export function selectRooms<T extends RoomReference>(
  rooms: T[],
  { after, limit, search }: RoomQuery,
): T[] {
  const sought = search.toLowerCase();
  return rooms
    .filter((room) => !after || compareRooms(room, after) > 0)
    .filter(({ room }) => room.toLowerCase().includes(sought))
    .toSorted(compareRooms)
    .slice(0, limit);
}

/** Adds up the nodes' summaries of the same room. */
export function mergeRooms(parts: RoomSummary[]): RoomSummary[] {
  const merged = new Map<string, RoomSummary>();
  for (const part of parts) {
    const key = keyText(part);
    const room = merged.get(key);
    if (!room) {
      merged.set(key, { ...part });
      continue;
    }
    for (const count of ['websocket', 'webrtc', 'away', 'talking'] as const) {
      room[count] += part[count];
    }
  }
  return [...merged.values()];
}

/** Returns a room's position in the list as text. */
export const keyText = ({ account_id, room }: RoomReference): string => `${account_id}/${room}`;

/** Returns the room of a position that {@link keyText} wrote; undefined if the text is malformed. */
export function parseKey(text: string): RoomReference | undefined {
  const [, account, room] = /^([1-9]\d{0,14})\/([^]+)$/.exec(text) ?? [];
  return account && room ? { account_id: Number(account), room } : undefined;
}
