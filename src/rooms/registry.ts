import { Room } from './room.ts';
import type { RoomParts } from './room-parts.ts';

/** Lease of a room, which stays open until the last lease is released. */
export type RoomLease = { readonly room: Room; release(): void };

type Entry = { opening: Promise<Room>; room: Room | undefined; users: number };

/** The rooms of this process. A room belongs to an account, is opened for the first lease and closed after the last. */
export class RoomRegistry {
  readonly #parts: RoomParts;
  readonly #entries = new Map<string, Entry>();
  /** Empty rooms that wait for their turn to be closed. */
  readonly #closing = new Set<Room>();
  #isClosed = false;

  constructor(parts: RoomParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Open rooms, in no order. */
  get opened(): Room[] {
    return [...this.#entries.values()].flatMap(({ room }) => room ?? []);
  }

  /** Returns a room, if it is open. */
  find(accountId: number, name: string): Room | undefined {
    return this.#entries.get(keyOf(accountId, name))?.room;
  }

  /** @throws {Error} if the media worker cannot open a router */
  async acquire(accountId: number, name: string): Promise<RoomLease> {
    const key = keyOf(accountId, name);
    let entry = this.#entries.get(key);
    if (!entry) {
      const log = this.#parts.log.child({ account: accountId, room: name });
      const place = { ...this.#parts, log, accountId, name };
      entry = { opening: Room.open(place), room: undefined, users: 0 };
      this.#entries.set(key, entry);
    }
    const held = entry;
    held.users += 1;
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      held.users -= 1;
      if (held.users === 0) this.#close(key, held);
    };
    try {
      held.room = await held.opening;
      return { room: held.room, release };
    } catch (fault) {
      release();
      throw fault;
    }
  }

  /** Closes all rooms at once, when this node goes away: by then only kept places hold leases. */
  close(): void {
    this.#isClosed = true;
    for (const room of this.#closing) room.close();
    this.#closing.clear();
    for (const [key, entry] of this.#entries) this.#close(key, entry);
    // Audio of kept places would still be paced to rooms that are closed.
    this.#parts.clock.close();
  }

  #close(key: string, entry: Entry): void {
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
    // A room that failed to open has rejected the promise of its callers; there is nothing to
    // close.
    entry.opening.then(
      (room) => this.#closeInTurn(room),
      () => {},
    );
  }

  /** Closes a room in slices, because hundreds may become empty at once. */
  #closeInTurn(room: Room): void {
    if (this.#isClosed) {
      room.close();
      return;
    }
    this.#closing.add(room);
    this.#parts.slices.add(this, () => {
      if (this.#closing.delete(room)) room.close();
    });
  }
}

const keyOf = (accountId: number, name: string) => `${accountId}:${name}`;
