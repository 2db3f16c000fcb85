import { PartylineError } from '../protocol/errors.ts';
import type { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import type { WebSocketPeer } from '../rooms/websocket-peer.ts';

/** A peer of a room, by either of its ways. */
export type RoomPeer = WebSocketPeer | WebRtcPeer;

/** A peer and its new way. */
export type Ways =
  { before: WebSocketPeer; after: WebRtcPeer } | { before: WebRtcPeer; after: WebSocketPeer };

export type WayChangeEvents = {
  /** Called when the new way can be used, and the client must be told. */
  onBegun: () => void;
  /** Called when the new way takes over. */
  onDone: () => void;
  /** Called when the change has failed: the old way stays in use. */
  onFailed: (fault: PartylineError) => void;
};

/** Time that browsers need to prepare for the packets of a new consumer, which listeners of the peer get when it produces, ms. */
const OTHERS_READY_MS = 150;
/** Maximum wait for the browser to resume its consumers, once it is heard, before it takes over, ms. */
const MAX_CONSUMING_MS = 1000;

/**
 * Change of a client's way into its room (docs/protocol.md, section 3): the old way carries its audio in both
 * directions until the first packet comes by the new one. Owns the new way until that takes over.
 */
export class WayChange {
  readonly #ways: Ways;
  readonly #withinMs: number;
  readonly #mayPublish: boolean;
  readonly #events: WayChangeEvents;
  #deadline: NodeJS.Timeout | undefined;
  /** Runs from the first packet of a browser on. */
  #takeOver: NodeJS.Timeout | undefined;
  #areOthersReady = false;
  #isWaiting = false;
  #isOver = false;

  /**
   * @param withinMs maximum time between telling the client and its first packet, ms
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
      after.prepare({ onChange: () => this.#look(), onLost: () => this.#fail(LOST) });
    } else {
      await after.prepare();
    }
    if (this.#isOver) return;
    this.#events.onBegun();
    this.#isWaiting = true;
    this.#deadline = setTimeout(() => this.#expire(), this.#withinMs);
    if (after.kind === 'webrtc') after.listen();
    // Its audio does not come by the old way either.
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

  #look(): void {
    const { after } = this.#ways;
    if (this.#isOver || after.kind !== 'webrtc') return;
    const { isHeard, isReceiving, hasConsumers } = after.readiness;
    if (!this.#mayPublish && isReceiving) this.#finish();
    if (!isHeard) return;
    this.#takeOver ??= setTimeout(() => {
      this.#areOthersReady = true;
      this.#takeOver = setTimeout(() => this.#finish(), MAX_CONSUMING_MS - OTHERS_READY_MS);
      this.#look();
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
