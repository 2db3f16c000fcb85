import { randomUUID } from 'node:crypto';
import type { PeerKind } from '../protocol/messages.ts';

const MINUTE_MS = 60_000;
/** A process that did not run for longer than a lease lasts had no peers in that time. */
const MAX_ACCRUED_MS = 45_000;

/** What time it is: on the calendar (ms since 1970, UTC), which may jump, and on a clock that never does. */
export type MeterClock = { wallMs(): number; monotonicMs(): number };

export const systemClock: MeterClock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

/** What one process has counted of a room in a minute so far. Written again, it replaces what was written before. */
export type MinuteCount = {
  /** Who counted: a name that no other process has, and that this one does not have twice for a minute. */
  writer: string;
  accountId: number;
  /** The minute that it began with, UTC: `2026-11-21T08:13`. */
  minute: string;
  room: string;
  websocketMs: number;
  webrtcMs: number;
  /** The most peers that were there at once. */
  peakPeers: number;
};

type Count = Omit<MinuteCount, 'accountId' | 'room'> & { isWritten: boolean };

type MeteredRoom = {
  peers: Record<PeerKind, number>;
  countedToMs: number;
  /** By writer and minute. */
  counts: Map<string, Count>;
};

/** Counts the peers in named rooms by time. Pure: it keeps no timer, and writes nowhere. */
export class Meter {
  readonly #clock: MeterClock;
  readonly #accounts = new Map<number, Map<string, MeteredRoom>>();
  #writer = randomUUID();
  #latestWallMs = 0;

  constructor(clock: MeterClock = systemClock) {
    this.#clock = clock;
  }

  /** A peer is in a room from now on, until what is returned is called; calling it again changes nothing. */
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
    };
  }

  /** The accounts that have peers in rooms. */
  activeAccounts(): number[] {
    return [...this.#accounts]
      .filter(([, rooms]) => [...rooms.values()].some(hasPeers))
      .map(([accountId]) => accountId);
  }

  /** Everybody who is in a room. */
  countPeers(): Record<PeerKind, number> {
    const count = { websocket: 0, webrtc: 0 };
    for (const rooms of this.#accounts.values()) {
      for (const { peers } of rooms.values()) {
        count.websocket += peers.websocket;
        count.webrtc += peers.webrtc;
      }
    }
    return count;
  }

  /** What has changed since it was last written. */
  take(): MinuteCount[] {
    const changed: MinuteCount[] = [];
    for (const [accountId, rooms] of this.#accounts) {
      for (const [room, metered] of rooms) {
        this.#accrue(metered);
        for (const { isWritten, ...count } of metered.counts.values()) {
          if (!isWritten) changed.push({ accountId, room, ...count });
        }
      }
    }
    return changed;
  }

  /** These counts are safe; those of minutes that are over are forgotten, if nothing has been added since. */
  written(counts: MinuteCount[]): void {
    const now = minuteOf(this.#wallMs());
    for (const written of counts) {
      const { accountId, room, minute } = written;
      const rooms = this.#accounts.get(accountId);
      const metered = rooms?.get(room);
      const count = metered?.counts.get(keyOf(written));
      if (!rooms || !metered || !count) continue;
      // What has passed in the meantime may be of that minute too.
      this.#accrue(metered);
      count.isWritten =
        count.websocketMs === written.websocketMs &&
        count.webrtcMs === written.webrtcMs &&
        count.peakPeers === written.peakPeers;
      const isOver = minute !== now || count.writer !== this.#writer;
      if (count.isWritten && isOver) metered.counts.delete(keyOf(count));
      if (metered.counts.size > 0 || hasPeers(metered)) continue;
      rooms.delete(room);
      if (rooms.size === 0) this.#accounts.delete(accountId);
    }
  }

  #roomOf(accountId: number, room: string): MeteredRoom {
    const rooms = this.#accounts.get(accountId) ?? new Map<string, MeteredRoom>();
    this.#accounts.set(accountId, rooms);
    const metered = rooms.get(room) ?? {
      peers: { websocket: 0, webrtc: 0 },
      countedToMs: this.#clock.monotonicMs(),
      counts: new Map<string, Count>(),
    };
    rooms.set(room, metered);
    return metered;
  }

  /** Counts the time since this was last done, in the minutes in which it lies. */
  #accrue(room: MeteredRoom): void {
    const nowMs = this.#clock.monotonicMs();
    let leftMs = Math.min(nowMs - room.countedToMs, MAX_ACCRUED_MS);
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

  /** When the calendar is set back, a minute may come again that has been forgotten: it is counted under another name. */
  #wallMs(): number {
    const wallMs = this.#clock.wallMs();
    if (wallMs < this.#latestWallMs) this.#writer = randomUUID();
    this.#latestWallMs = wallMs;
    return wallMs;
  }

  #notePeak(room: MeteredRoom): void {
    const count = this.#countAt(room, this.#wallMs());
    const peers = room.peers.websocket + room.peers.webrtc;
    if (peers <= count.peakPeers) return;
    count.peakPeers = peers;
    count.isWritten = false;
  }

  #countAt(room: MeteredRoom, wallMs: number): Count {
    const place = { writer: this.#writer, minute: minuteOf(wallMs) };
    const count = room.counts.get(keyOf(place)) ?? {
      ...place,
      websocketMs: 0,
      webrtcMs: 0,
      peakPeers: room.peers.websocket + room.peers.webrtc,
      isWritten: false,
    };
    room.counts.set(keyOf(place), count);
    return count;
  }
}

const keyOf = ({ writer, minute }: Pick<MinuteCount, 'writer' | 'minute'>) => `${minute}|${writer}`;

const hasPeers = ({ peers }: MeteredRoom) => peers.websocket + peers.webrtc > 0;

/** The minute (UTC) of a moment, as it is named in the store. */
const minuteOf = (wallMs: number) => new Date(wallMs).toISOString().slice(0, 16);
/** The month (UTC) of a moment, as it is named in the store. */
export const monthOf = (wallMs: number) => new Date(wallMs).toISOString().slice(0, 7);
