import { randomBytes } from 'node:crypto';
import type { Credentials } from '../accounts/authenticator.ts';
import type { ClientTransport, PathState } from '../media/client-transport.ts';
import { mediaLost } from '../media/webrtc-leg.ts';
import { PartylineError } from '../protocol/errors.ts';
import { writeRestart } from './answer.ts';
import { checkIfMatch, type FragmentCredentials } from './fragment.ts';
import type { Offer, WhipKind } from './offer.ts';

/** States of a path that is over. */
const ENDED = new Set<PathState>(['dead', 'ended', 'cut']);

/** Body of a PATCH, read and charged for as the client may have it. */
export type Fragment = {
  /** Returns the client's ICE credentials; undefined if the body has only candidates. @throws {PartylineError} */
  read(): Promise<FragmentCredentials | undefined>;
  /** Called before ICE is restarted. @throws {PartylineError} `rate_limited` */
  chargeRestart(): void;
};

/** Answer to a PATCH: empty, or the gateway's end after an ICE restart. */
export type Patched = { body: string; etag: string } | undefined;

/** One direction of a client's audio: a session of WHIP or WHEP, as its client sees it. */
export class Half {
  readonly id: string;
  readonly kind: WhipKind;
  readonly credentials: Credentials;
  readonly path: ClientTransport;
  readonly #offer: Offer;
  /** Fragments of the client's present ICE session have one of these. */
  #ufrags: ReadonlySet<string>;
  #etag = newEtag();
  /** Answer to the last restart, kept for a client that did not receive it and repeats the restart. */
  #restarted: Patched;
  #state: PathState;
  #sinceMs = performance.now();
  /** Time of the last ICE restart in the present state. */
  #restartedAtMs = -Infinity;
  /** Queue of restarts: each is answered with the state after it. */
  #patching: Promise<unknown> = Promise.resolve();

  constructor(
    id: string,
    kind: WhipKind,
    offer: Offer,
    credentials: Credentials,
    path: ClientTransport,
  ) {
    this.id = id;
    this.kind = kind;
    this.credentials = credentials;
    this.path = path;
    this.#offer = offer;
    this.#ufrags = offer.ufrags;
    this.#state = path.state;
  }

  /** ETag of the ICE session, with its quotes. */
  get etag(): string {
    return this.#etag;
  }

  get state(): PathState {
    return this.#state;
  }

  /** True if the client was connected, and no longer is. */
  get isLost(): boolean {
    return this.#state === 'lost' || this.#state === 'dead';
  }

  /** Reads the state of the path. @returns true if it has changed */
  look(nowMs: number): boolean {
    const { state } = this.path;
    if (state === this.#state) return false;
    this.#state = state;
    this.#sinceMs = nowMs;
    this.#restartedAtMs = -Infinity;
    return true;
  }

  /**
   * Returns true if the client's time to connect, or to come back, is over. An ICE restart gives it as long again, but no more than twice
   * the time in all, so that a client without a path does not keep its place.
   */
  isOverdue(nowMs: number, { connectWithinMs, resumeMs }: HalfTimeouts): boolean {
    if (this.#state !== 'opening' && !this.isLost) return false;
    const withinMs = this.#state === 'opening' ? connectWithinMs : resumeMs;
    const forMs = nowMs - this.#sinceMs;
    const sinceRestartMs = nowMs - this.#restartedAtMs;
    return forMs >= 2 * withinMs || Math.min(forMs, sinceRestartMs) >= withinMs;
  }

  /**
   * Takes a fragment: candidates, which make no difference, or new ICE credentials, which restart ICE. A restart that is
   * repeated with the same credentials gets the same answer.
   * @throws {PartylineError} `precondition_required`, `precondition_failed`, `media_lost`, or as the fragment does
   */
  patch(ifMatch: string | undefined, fragment: Fragment): Promise<Patched> {
    const patched = this.#patching.then(() => this.#patch(ifMatch, fragment));
    this.#patching = patched.catch(() => {});
    return patched;
  }

  async #patch(ifMatch: string | undefined, fragment: Fragment): Promise<Patched> {
    const precondition = checkIfMatch(ifMatch, this.#etag);
    if (precondition === 'missing') {
      throw new PartylineError('precondition_required', 'Send "If-Match" with the ETag.');
    }
    if (precondition === 'failed') {
      throw new PartylineError('precondition_failed', 'There is a newer ICE session.');
    }
    const ice = await fragment.read();
    if (!ice) return undefined;
    // A client that has the ETag has the answer, too.
    if (this.#ufrags.has(ice.ufrag)) return precondition === 'any' ? this.#restarted : undefined;
    fragment.chargeRestart();
    try {
      await this.path.restartIce();
    } catch (fault) {
      if (ENDED.has(this.path.state)) throw mediaLost(fault);
      throw fault;
    }
    this.#restartedAtMs = performance.now();
    this.#ufrags = ice.ufrags;
    this.#etag = newEtag();
    this.#restarted = { body: writeRestart(this.#offer, this.path), etag: this.#etag };
    return this.#restarted;
  }
}

/** Time limits of a client; an ICE restart extends each of them. */
export type HalfTimeouts = {
  /** Maximum time until the first connection, ms. */
  connectWithinMs: number;
  /** Maximum time until a lost connection is restored, ms. */
  resumeMs: number;
};

const newEtag = () => `"${randomBytes(8).toString('hex')}"`;
