import type { FastifyBaseLogger } from 'fastify';
import type { Account } from '../accounts/accounts.ts';
import { accountFault, type KeyState } from '../accounts/authenticator.ts';
import { logFault } from '../protocol/log-fault.ts';
import type { LeaveReason } from '../protocol/messages.ts';
import type { ClientConnection } from '../rooms/peer.ts';
import type { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import type { WebSocketPeer } from '../rooms/websocket-peer.ts';
import type { AudioSettings } from './audio-settings.ts';
import { PeersOfAccounts } from './peers-of-accounts.ts';

/** Lateness of a timer from which this process stood still, ms: timers run before requests that came meanwhile are read. */
const STOOD_STILL_MS = 250;
/** Last part of the time for which a place is kept, ms: after a standstill it begins anew, and clients that came meanwhile are let in. */
const LAST_PART_MS = 2000;

/** Place of a peer whose connection was lost: client, peer and room. */
export type SuspendedPlace = {
  account: Account;
  /** API key of the client. */
  keyId: string;
  /** Signing key of the client's token. */
  signedBy?: string | undefined;
  sessionId: string;
  room: string;
  peer: WebSocketPeer | WebRtcPeer;
  /** Settings of the client. */
  settings: AudioSettings;
  /** Stores settings for a client that comes back to another process. */
  saveSettings: (settings: AudioSettings) => Promise<void>;
  log: FastifyBaseLogger;
  /** Reason for which the connection was lost, sent to the others if the client does not come back. */
  reason: LeaveReason;
  /** Releases everything else that the connection held; called once, when the place is no longer kept. */
  release: () => void;
};

/** The place of a peer in its room after its connection was lost: it stands in for the client, and hears nothing. */
export class SuspendedPeer implements ClientConnection {
  readonly place: SuspendedPlace;
  readonly #onEnd: () => void;
  #isLeftBehind = false;

  constructor(place: SuspendedPlace, onEnd: () => void) {
    this.place = place;
    this.#onEnd = onEnd;
  }

  get name(): string {
    return this.place.peer.name;
  }

  get log(): FastifyBaseLogger {
    return this.place.log;
  }

  /** A client that resumes is told the state of its room: messages that the broken connection lost cannot be known. */
  notify(): void {}

  notifyLater(): boolean {
    return false;
  }

  flush(): void {}

  sendAudio(): void {}

  readonly takesRelayed = false;

  takeRelayed(): void {}

  volumeLimited(): void {}

  /**
   * Mutes or unmutes the peer, as if its client had asked for it; the setting holds when the client is back.
   * @throws {PartylineError} `media_lost`
   */
  async setMuted(isMuted: boolean): Promise<void> {
    const { place } = this;
    place.settings = { ...place.settings, isMuted };
    try {
      await place.peer.setMuted(isMuted);
    } finally {
      await place.saveSettings(place.settings);
    }
  }

  /** Leaves the place to a client that comes back on another node: a fault of its peer here no longer ends it. */
  leaveBehind(): void {
    this.#isLeftBehind = true;
  }

  /** Ends the place after a fault of its peer. Faults that are not the client's are logged, whatever the client has logged before. */
  fail(fault: unknown): void {
    if (this.#isLeftBehind) return;
    const { code } = logFault(this.log, fault, 'kept place failed');
    this.log.info({ code }, 'kept place ended after a fault');
    this.end(this.place.reason);
  }

  /** Gives the place up: the peer leaves. */
  end(reason: LeaveReason): void {
    // First: what the peer is metered for last needs the account, which is known by its place.
    this.place.peer.close(reason);
    this.#onEnd();
    this.place.release();
  }
}

type Entry = { kept: SuspendedPeer; timer: NodeJS.Timeout };

/** Begins the last part, which has a timer of its own: a standstill over its beginning leaves all of it. */
function beginLastPart(entry: Entry, lastMs: number): void {
  const { kept } = entry;
  const end = () => kept.end(kept.place.reason);
  const dueMs = performance.now() + lastMs;
  entry.timer = setTimeout(() => {
    const hasStoodStill = performance.now() - dueMs >= STOOD_STILL_MS;
    if (hasStoodStill) entry.timer = setTimeout(end, LAST_PART_MS);
    else end();
  }, lastMs);
}

/**
 * Places of peers whose connection was lost, kept for a while: a client that connects again in that time with the
 * same `peer` gets its place back, and the other peers see neither a leave nor a join.
 */
export class SuspendedPeers {
  /** Time for which a place is kept, ms. */
  readonly keepMs: number;
  readonly #places = new PeersOfAccounts<Entry>();

  constructor(keepMs: number) {
    this.keepMs = keepMs;
  }

  get size(): number {
    return this.#places.size;
  }

  keep(place: SuspendedPlace): void {
    const { account, peer } = place;
    this.get(account.id, peer.name)?.end('closed');
    const kept = new SuspendedPeer(place, () => this.#forget(kept));
    const lastMs = Math.min(this.keepMs, LAST_PART_MS);
    const entry: Entry = {
      kept,
      timer: setTimeout(() => beginLastPart(entry, lastMs), this.keepMs - lastMs),
    };
    this.#places.set(account.id, peer.name, entry);
    // The place ends at once if the peer is already in the room on another node.
    peer.suspend(kept);
  }

  /** Returns the kept place of a peer. */
  get(accountId: number, name: string): SuspendedPeer | undefined {
    return this.#places.get(accountId, name)?.kept;
  }

  /** Returns the places of an account. */
  of(accountId: number): SuspendedPeer[] {
    return this.#places.of(accountId).map(({ kept }) => kept);
  }

  /** Returns one of the places of an account; undefined if it has none. */
  firstOf(accountId: number): SuspendedPeer | undefined {
    return this.#places.firstOf(accountId)?.kept;
  }

  /** Returns the accounts that have places here. */
  accountIds(): number[] {
    return this.#places.accountIds();
  }

  /** Applies a change of an account to its places, and ends those of clients that could no longer connect: a place needs the same rights as a connection. */
  accountChanged(account: Account, keys: KeyState): void {
    for (const kept of this.of(account.id)) {
      kept.place.account = account;
      const fault = accountFault(account, keys, kept.place);
      if (fault) kept.end(fault.code);
    }
  }

  /** Ends the places of an account whose minutes are used up. */
  exhaust(accountId: number): void {
    for (const kept of this.of(accountId)) kept.end('minutes_exhausted');
  }

  /** Removes and returns the suspended peer of this name, which the caller then resumes or ends; undefined if there is none. */
  take(accountId: number, name: string): SuspendedPeer | undefined {
    const kept = this.get(accountId, name);
    if (kept) this.#forget(kept);
    return kept;
  }

  /** Closes, because this node goes away. The places stay in their rooms, for clients that come back on another node. */
  close(): void {
    for (const { kept, timer } of this.#places.values()) {
      clearTimeout(timer);
      kept.leaveBehind();
    }
    this.#places.clear();
  }

  #forget(kept: SuspendedPeer): void {
    const { place, name } = kept;
    const entry = this.#places.get(place.account.id, name);
    if (entry?.kept !== kept) return;
    clearTimeout(entry.timer);
    this.#places.delete(place.account.id, name);
  }
}
