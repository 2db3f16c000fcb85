import type { Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import { counts } from '../counts.ts';
import { FRAME_MS } from '../audio/format.ts';
import { binaryFrame } from './binary-frame.ts';

/** Audio that a client has not taken yet is dropped beyond this. */
const MAX_UNSENT_AUDIO_MS = 250;
/** A client that makes us drop for this long does not read any more. */
const SLOW_AFTER_MS = 5000;
/** Text is never dropped; a client that leaves this much of it unread is as good as gone. */
const MAX_UNSENT_BYTES = 1 << 20;
/** Share of a frame's size in the running mean. */
const SMOOTHING = 0.1;

/** The way out to one client: keeps what waits in its socket small by dropping audio, never text, and counts the drops. */
export class SendQueue {
  readonly #socket: WebSocket;
  readonly #stream: Writable;
  readonly #onSlow: () => void;
  readonly #now: () => number;
  #meanFrameBytes = 0;
  #droppingSinceMs: number | undefined;
  #isSlow = false;
  droppedFrames = 0;

  /**
   * @param stream what `socket`, which compresses nothing, writes to
   * @param onSlow called when the client has not kept up for 5 s; `now`: what time it is, in ms
   */
  constructor(
    socket: WebSocket,
    stream: Writable,
    onSlow: () => void,
    now = () => performance.now(),
  ) {
    this.#now = now;
    this.#socket = socket;
    this.#stream = stream;
    this.#onSlow = onSlow;
  }

  /** How much audio waits in the socket. */
  get unsentMs(): number {
    const unsentBytes = this.#socket.bufferedAmount;
    return unsentBytes === 0 ? 0 : (unsentBytes / this.#meanFrameBytes) * FRAME_MS;
  }

  sendText(text: string): void {
    if (this.#isSlow || this.#socket.bufferedAmount <= MAX_UNSENT_BYTES) this.#socket.send(text);
    else this.#giveUp();
  }

  /** Sends one frame of 20 ms, or drops it. The hot path: runs for every frame to every client. */
  sendAudio(frame: Buffer): void {
    if (this.unsentMs > MAX_UNSENT_AUDIO_MS) {
      this.#drop(this.#now());
      return;
    }
    this.#droppingSinceMs = undefined;
    // What ws sends goes out at once, so that this comes behind it; and nothing may follow a close.
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    counts.framesOut += 1;
    this.#meanFrameBytes += (frame.length - this.#meanFrameBytes) * SMOOTHING;
    this.#stream.write(binaryFrame(frame));
  }

  #drop(nowMs: number): void {
    this.droppedFrames += 1;
    counts.dropped.unread += 1;
    this.#droppingSinceMs ??= nowMs;
    if (nowMs - this.#droppingSinceMs > SLOW_AFTER_MS) this.#giveUp();
  }

  /** Once; what is sent after that are the last words to the client. */
  #giveUp(): void {
    if (this.#isSlow) return;
    this.#isSlow = true;
    this.#onSlow();
  }
}
