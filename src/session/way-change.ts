import { PartylineError } from '../protocol/errors.ts';
import type { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import type { WebSocketPeer } from '../rooms/websocket-peer.ts';

/** Peer in a room, over WebSocket or WebRTC. */
export type RoomPeer = WebSocketPeer | WebRtcPeer;

/** Old and new way of one client into its room. */
export type Ways =
  { before: WebSocketPeer; after: WebRtcPeer } | { before: WebRtcPeer; after: WebSocketPeer };

export type WayChangeEvents = {
  /** Called when the new way is ready; tells the client. */
  onBegun: () => void;
  /** Called when the new way takes over. */
  onDone: () => void;
  /** Called when the change has failed: the old way stays in use. */
  onFailed: (fault: PartylineError) => void;
};

/**
 * Time after a browser's first packet for which it does not take over, ms. The browsers of other peers, which get a consumer when it
 * produces, prepare for its packets meanwhile.
 */
const OTHERS_READY_MS = 150;
/** Maximum time from a browser's first packet until it takes over, ms, even if it has not resumed all of its consumers. */
const MAX_CONSUMING_MS = 1000;

/**
 * Change of a client's way into its room (docs/protocol.md, section 3). The old way carries the audio in both
 * directions until the new one is known to work. Owns the peer of the new way until it takes over.
 */
export class WayChange {
  readonly #ways: Ways;
  readonly #withinMs: number;
  readonly #mayPublish: boolean;
  readonly #events: WayChangeEvents;
  #deadline: NodeJS.Timeout | undefined;
  /** Timer of the takeover, started by a browser's first packet. */
  #takeOver: NodeJS.Timeout | undefined;
  #areOthersReady = false;
  /** True once the client has been told: its next binary message completes a change to the WebSocket. */
  #isWaiting = false;
  #isOver = false;

  /**
   * @param withinMs maximum time from `onBegun` until the client's first packet, ms
   * @param mayPublish true if the client may send audio
   */
  constructor(
    ways: Ways,
    { withinMs, mayPublish }: { withinMs: number; mayPublish: boolean },
    events: WayChangeEvents,
  ) {
    this.#ways = ways;
    this.#withinMs = withinMs;
    this.#mayPublish = mayPublish;
    this.#events = events;
  }

  /** The old way, in use until the change is complete. */
  get before(): RoomPeer {
    return this.#ways.before;
  }

  get after(): RoomPeer {
    return this.#ways.after;
  }

  /** Prepares the new way; resolves when the client has been told that it can be used. */
  async begin(): Promise<void> {
    const { before, after } = this.#ways;
    if (after.kind === 'webrtc') {
      after.prepare({ onChange: () => this.#checkReadiness(), onLost: () => this.#fail(LOST) });
    } else {
      await after.prepare();
    }
    if (this.#isOver) return;
    this.#events.onBegun();
    this.#isWaiting = true;
    this.#deadline = setTimeout(() => this.#expire(), this.#withinMs);
    if (after.kind === 'webrtc') after.listen();
    // The client sent no audio by the old way, so none is awaited by the new one.
    else if (before.kind === 'webrtc' && !before.isProducing) this.#finish();
  }

  /** Notes a binary message of the client. */
  binaryCame(): void {
    if (this.#isWaiting && this.#ways.after.kind === 'websocket') this.#finish();
  }

  /** Cancels the change. Idempotent, and without effect once it is complete. */
  cancel(): void {
    if (this.#isOver) return;
    this.#end();
    this.#ways.after.close('closed');
  }

  /** Completes the change as soon as the browser is ready. */
  #checkReadiness(): void {
    const { after } = this.#ways;
    if (this.#isOver || after.kind !== 'webrtc') return;
    const { isHeard, isReceiving, hasConsumers } = after.readiness;
    if (!this.#mayPublish && isReceiving) this.#finish();
    if (!isHeard) return;
    this.#takeOver ??= setTimeout(() => {
      this.#areOthersReady = true;
      this.#takeOver = setTimeout(() => this.#finish(), MAX_CONSUMING_MS - OTHERS_READY_MS);
      this.#checkReadiness();
    }, OTHERS_READY_MS);
    if (this.#areOthersReady && hasConsumers) this.#finish();
  }

  /** Ends the change at its deadline: done if the client is heard, or sends nothing and can receive; failed otherwise. */
  #expire(): void {
    const { after } = this.#ways;
    if (after.kind === 'webrtc') {
      const { isProducing, isReceiving, isHeard } = after.readiness;
      if (isHeard || (!isProducing && isReceiving)) {
        this.#finish();
        return;
      }
    }
    this.#fail(NOTHING_CAME);
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#end();
    this.#events.onDone();
  }

  #fail(sentence: string): void {
    if (this.#isOver) return;
    this.cancel();
    this.#events.onFailed(new PartylineError('media_lost', sentence));
  }

  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#deadline);
    clearTimeout(this.#takeOver);
  }
}

const NOTHING_CAME =
  'join: no audio arrived over the new transport in time; the previous one stays in use.';
const LOST = 'join: the media worker of the room died; the previous transport stays in use.';
