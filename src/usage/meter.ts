import { randomUUID } from 'node:crypto';
import type { PeerKind } from '../protocol/messages.ts';

const MINUTE_MS = 60_000;
/**
 * Maximum number of rooms of an account that are counted separately in a minute, and maximum number of its counts that are
 * held. Further rooms are counted together as {@link OTHER_ROOMS}: the sum stays exact, memory and Redis stay bounded.
 */
export const MAX_ROOMS_A_MINUTE = 2000;
/**
 * Maximum numbers of records of rooms of an account in a day, of hours and of minutes, so that an endless number of new rooms does not
 * fill Redis; further rooms are recorded as {@link OTHER_ROOMS}. 500 clients that are each in a room of their own all day have 12,000 and
 * 720,000; 250 calls at a time of two minutes each, in rooms with names of their own, have 7500 of hours in an hour.
 */
export const MAX_RECORDS_A_DAY = { hours: 50_000, minutes: 750_000 };
const MAX_COUNTS_OF_ACCOUNT = 20_000;
/** Room name of the record for all further rooms. No client can have a room of this name. */
export const OTHER_ROOMS = '__other__';

/** Clocks: wall time (ms since 1970, UTC), which may jump, and a monotonic clock. */
export type MeterClock = { wallMs(): number; monotonicMs(): number };

/** Time of a room in a minute that one process has counted so far. A later write replaces an earlier one. */
export type MinuteCount = {
  /** Name of the counter, unique among processes, and used only once for a minute. */
  writer: string;
  accountId: number;
  /** The minute, UTC: `2026-11-21T08:13`. */
  minute: string;
  room: string;
  websocketMs: number;
  webrtcMs: number;
  /** Peak number of peers in the room, including those of other nodes. */
  peakPeers: number;
};

type Count = Omit<MinuteCount, 'accountId' | 'room'> & { isWritten: boolean };

type MeteredRoom = {
  name: string;
  account: MeteredAccount;
  peers: Record<PeerKind, number>;
  /** Number of peers on all nodes, as far as this one knows. */
  size: number;
  countedToMs: number;
  /** Counts by writer and minute. */
  minuteCounts: Map<string, Count>;
};

type MeteredAccount = {
  id: number;
  rooms: Map<string, MeteredRoom>;
  /** Number of counts, in all and by writer and minute. */
  size: number;
  sizes: Map<string, number>;
};

const ALWAYS = (_accountId: number, _nowMs: number) => true;

/** Meters the time of peers in named rooms. Pure: it keeps no timer, and writes nowhere. */
export class Meter {
  readonly #clock: MeterClock;
  readonly #longestStepMs: number;
  readonly #mayCount: (accountId: number, nowMs: number) => boolean;
  readonly #accounts = new Map<number, MeteredAccount>();
  #writer = randomUUID();
  #latestWallMs = 0;

  /**
   * @param longestStepMs longest step of time that is counted: a process that stood still for longer has peers that may have
   *   been on another node meanwhile
   * @param mayCount returns true if a further room of an account may be counted separately at a time, ms of the monotonic clock
   */
  constructor(clock: MeterClock, longestStepMs: number, mayCount = ALWAYS) {
    this.#clock = clock;
    this.#longestStepMs = longestStepMs;
    this.#mayCount = mayCount;
  }

  /** Counts a peer of a room from now on, until the returned function is called; further calls have no effect. */
  enter(accountId: number, room: string, kind: PeerKind): () => void {
    const metered = this.#roomOf(accountId, room);
    this.#accrue(metered);
    metered.peers[kind] += 1;
    this.#notePeak(metered);
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      this.#accrue(metered);
      metered.peers[kind] -= 1;
      // A room whose counts are kept may be entered again: by another gathering, which has a peak
      // of its own.
      if (!hasPeers(metered)) metered.size = 0;
      this.#forget(metered);
    };
  }

  /** Notes the number of peers in a room over all nodes; ignored for a room without peers of this process. */
  resize(accountId: number, room: string, peers: number): void {
    const metered = this.#accounts.get(accountId)?.rooms.get(room);
    if (!metered || !hasPeers(metered)) return;
    this.#accrue(metered);
    metered.size = peers;
    this.#notePeak(metered);
  }

  /** Accounts that have peers in rooms. */
  activeAccounts(): number[] {
    return [...this.#accounts]
      .filter(([, { rooms }]) => [...rooms.values()].some(hasPeers))
      .map(([accountId]) => accountId);
  }

  /** Counts the peers that are in rooms. */
  countPeers(): Record<PeerKind, number> {
    const count = { websocket: 0, webrtc: 0 };
    for (const { rooms } of this.#accounts.values()) {
      for (const { peers } of rooms.values()) {
        count.websocket += peers.websocket;
        count.webrtc += peers.webrtc;
      }
    }
    return count;
  }

  /** Counts the time until now, which {@link take} does too; of a step beyond the longest one a part is not counted. */
  accrue(): void {
    for (const { rooms } of this.#accounts.values()) {
      for (const metered of rooms.values()) this.#accrue(metered);
    }
  }

  /**
   * Returns the counts that have changed since they were last written, and forgets finished ones.
   * @param max number of counts after which the rest is left to a later call, and not copied in this one
   */
  take(max = Infinity): MinuteCount[] {
    // First, because time that is counted now may go to the room of all others.
    this.accrue();
    const changed: MinuteCount[] = [];
    for (const [accountId, account] of this.#accounts) {
      for (const [room, metered] of account.rooms) {
        this.#forget(metered);
        for (const { isWritten, ...count } of metered.minuteCounts.values()) {
          if (!isWritten && isUsed(count)) changed.push({ accountId, room, ...count });
          if (changed.length === max) return changed;
        }
      }
      if (account.rooms.size === 0) this.#accounts.delete(accountId);
    }
    return changed;
  }

  /** Notes that these counts were written; {@link take} forgets them when nothing more can be added to their minute, if nothing was added since. */
  written(minuteCounts: MinuteCount[]): void {
    for (const written of minuteCounts) {
      const metered = this.#accounts.get(written.accountId)?.rooms.get(written.room);
      const count = metered?.minuteCounts.get(keyOf(written));
      if (!count) continue;
      count.isWritten =
        count.websocketMs === written.websocketMs &&
        count.webrtcMs === written.webrtcMs &&
        count.peakPeers === written.peakPeers;
    }
  }

  /**
   * Forgets counts of past minutes that are written or empty; then the room, if it has neither counts nor peers.
   * A written count stays until no later time can be added to its minute: begun again from 0, it would replace the written one.
   */
  #forget(room: MeteredRoom): void {
    const { name, account, minuteCounts } = room;
    const wallMs = this.#wallMs();
    const now = minuteOf(wallMs);
    // Time is counted backwards from the wall clock, which may have been set back unseen since the
    // last call.
    const earliest = minuteOf(wallMs - this.#longestStepMs);
    for (const [key, count] of minuteCounts) {
      const isRenamed = count.writer !== this.#writer;
      const isFinal = isRenamed || count.minute < earliest;
      const isOver = isRenamed || count.minute !== now;
      const isDone = isUsed(count) ? isFinal && count.isWritten : isOver || !hasPeers(room);
      if (!isDone) continue;
      minuteCounts.delete(key);
      account.size -= 1;
      const size = account.sizes.get(key)! - 1;
      if (size > 0) account.sizes.set(key, size);
      else account.sizes.delete(key);
    }
    if (minuteCounts.size === 0 && !hasPeers(room)) account.rooms.delete(name);
  }

  #roomOf(accountId: number, room: string): MeteredRoom {
    const account = this.#accounts.get(accountId) ?? {
      id: accountId,
      rooms: new Map(),
      size: 0,
      sizes: new Map(),
    };
    this.#accounts.set(accountId, account);
    const metered = account.rooms.get(room) ?? this.#addRoom(account, room);
    return metered;
  }

  #addRoom(account: MeteredAccount, name: string): MeteredRoom {
    const peers = { websocket: 0, webrtc: 0 };
    const countedToMs = this.#clock.monotonicMs();
    const room = {
      name,
      account,
      peers,
      size: 0,
      countedToMs,
      minuteCounts: new Map<string, Count>(),
    };
    account.rooms.set(name, room);
    return room;
  }

  /** Adds the time since the last call to the minutes in which it lies. */
  #accrue(room: MeteredRoom): void {
    const nowMs = this.#clock.monotonicMs();
    let leftMs = Math.min(nowMs - room.countedToMs, this.#longestStepMs);
    room.countedToMs = nowMs;
    if (!hasPeers(room)) return;
    let endMs = this.#wallMs();
    while (leftMs > 0) {
      const sinceMinuteMs = endMs % MINUTE_MS;
      const partMs = Math.min(leftMs, sinceMinuteMs === 0 ? MINUTE_MS : sinceMinuteMs);
      const count = this.#countAt(room, endMs - partMs);
      count.websocketMs += partMs * room.peers.websocket;
      count.webrtcMs += partMs * room.peers.webrtc;
      count.isWritten = false;
      endMs -= partMs;
      leftMs -= partMs;
    }
    this.#notePeak(room);
  }

  /** Renames the counter when the wall clock is set back, because a forgotten minute may come again. */
  #wallMs(): number {
    const wallMs = this.#clock.wallMs();
    if (wallMs < this.#latestWallMs) this.#writer = randomUUID();
    this.#latestWallMs = wallMs;
    return wallMs;
  }

  #notePeak(room: MeteredRoom): void {
    const count = this.#countAt(room, this.#wallMs());
    const peers = sizeOf(room);
    if (peers <= count.peakPeers) return;
    count.peakPeers = peers;
    count.isWritten = false;
  }

  #countAt(room: MeteredRoom, wallMs: number): Count {
    const place = { writer: this.#writer, minute: minuteOf(wallMs) };
    const key = keyOf(place);
    const known = room.minuteCounts.get(key);
    if (known) return known;
    const { account } = room;
    const size = account.sizes.get(key) ?? 0;
    const isFull = size >= MAX_ROOMS_A_MINUTE || account.size >= MAX_COUNTS_OF_ACCOUNT;
    if (isFull || !this.#mayCount(account.id, this.#clock.monotonicMs())) {
      const others = account.rooms.get(OTHER_ROOMS) ?? this.#addRoom(account, OTHER_ROOMS);
      const count = others.minuteCounts.get(key) ?? this.#addCount(others, key, place);
      count.peakPeers = Math.max(count.peakPeers, sizeOf(room));
      return count;
    }
    return this.#addCount(room, key, place);
  }

  #addCount(room: MeteredRoom, key: string, place: Pick<Count, 'writer' | 'minute'>): Count {
    const { account } = room;
    const used = { websocketMs: 0, webrtcMs: 0, peakPeers: sizeOf(room) };
    const count = { ...place, ...used, isWritten: false };
    room.minuteCounts.set(key, count);
    account.size += 1;
    account.sizes.set(key, (account.sizes.get(key) ?? 0) + 1);
    return count;
  }
}

const keyOf = ({ writer, minute }: Pick<MinuteCount, 'writer' | 'minute'>) => `${minute}|${writer}`;

const peersIn = ({ peers }: Pick<MeteredRoom, 'peers'>) => peers.websocket + peers.webrtc;
const sizeOf = (room: MeteredRoom) => Math.max(room.size, peersIn(room));
const hasPeers = (room: Pick<MeteredRoom, 'peers'>) => peersIn(room) > 0;

/** Returns true if a count is not zero in whole milliseconds, in which it is written. */
const isUsed = ({ websocketMs, webrtcMs }: Pick<Count, 'websocketMs' | 'webrtcMs'>) =>
  Math.round(websocketMs) + Math.round(webrtcMs) > 0;

/** Returns the minute (UTC) of a time, as it is named in the store. */
const minuteOf = (wallMs: number) => new Date(wallMs).toISOString().slice(0, 16);
/** Returns the month (UTC) of a time, as it is named in the store. */
export const monthOf = (wallMs: number) => new Date(wallMs).toISOString().slice(0, 7);
