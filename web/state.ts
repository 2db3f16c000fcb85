import type { PeerKind } from '../src/protocol/messages.ts';
import type { CloseReason } from './retry.ts';

/** State of a `PartylineClient`, as the program that uses it sees it. */

/** Someone else in the room. */
export type RemotePeer = {
  peer: string;
  kind: PeerKind;
  /** Nothing that it says is heard. */
  muted: boolean;
  /** Audio of this peer; absent until it speaks for the first time. */
  track?: MediaStreamTrack;
};

/** Options of a `PartylineClient`. */
export type ClientOptions = {
  /** A token with which `peer` may connect (`POST /api/tokens`): asked for at each connection. May throw a `TokenError`. */
  getToken: () => Promise<string>;
  /** The name of this peer, unique within the account: a second connection with the same name replaces the first. */
  peer: string;
  /** The gateway's WebSocket endpoint; default: `/ws` on the host that this page came from. */
  url?: string | URL;
};

/** State of the client; a field exists only in the states that have it. */
export type ClientState =
  | { name: 'idle' }
  | { name: 'connecting' }
  | { name: 'lobby' }
  | { name: 'joining'; room: string }
  | {
      name: 'in_room';
      room: string;
      /** Everyone else, by name, in the order in which they came. */
      peers: ReadonlyMap<string, RemotePeer>;
      /**
       * Peers that speak now, this client included, with levels in dBov, 0 (loudest) to −127; undefined if the level
       * is unknown.
       */
      speaking: ReadonlyMap<string, number | undefined>;
      /** No audio goes or comes for now: the way to the gateway broke and is being mended. */
      isInterrupted: boolean;
    }
  /** The connection broke; the next attempt is at `retryAt` (Unix time in ms). */
  | {
      name: 'reconnecting';
      /** Where we shall be again, if the caller is in a room. */
      room?: string;
      /** We hear and are heard in it meanwhile. */
      hasAudio: boolean;
      reason: CloseReason;
      attempt: number;
      retryAt: number;
    }
  /** The end: by `close()`, or for a reason that trying again would not mend. */
  | { name: 'closed'; reason: CloseReason };

export type ClientEvents = {
  /** `state` or `muted` is not what it was. */
  change: ClientState;
  /** Something failed and the client goes on without it; a sentence. */
  fault: string;
  /** The browser plays sound only after a click: call `resumePlayback()` in one. */
  playback_blocked: undefined;
};

/** `connect()` or `join()` did not come to its end; `reason` says why in words. */
export class ClosedError extends Error {
  override readonly name = 'ClosedError';
  readonly reason: CloseReason;

  constructor(reason: CloseReason) {
    super(reason.message);
    this.reason = reason;
  }
}

/** The events of one object, typed: an EventTarget behind two methods. */
export class Events<Map extends Record<string, unknown>> {
  readonly #target = new EventTarget();

  /** Listens until `signal` aborts, or the returned function is called. */
  on<Name extends keyof Map & string>(
    name: Name,
    listener: (detail: Map[Name]) => void,
    options: { signal?: AbortSignal } = {},
  ): () => void {
    // Only emit() below dispatches on this target, and it takes the detail that belongs to the name.
    const handler = (event: Event) => listener((event as CustomEvent<Map[Name]>).detail);
    this.#target.addEventListener(name, handler, options);
    return () => this.#target.removeEventListener(name, handler);
  }

  emit<Name extends keyof Map & string>(name: Name, detail: Map[Name]): void {
    this.#target.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
