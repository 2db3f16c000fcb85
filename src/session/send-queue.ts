import type { Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import { counts } from '../counters.ts';
import type { Timings } from '../../config/timings.ts';
import { FRAME_MS } from '../audio/format.ts';
import { BoundedFifo } from '../message-fifo.ts';
import { binaryFrame } from './binary-frame.ts';

/** Audio that a client has not taken yet is dropped beyond this. */
const MAX_UNSENT_AUDIO_MS = 250;
/** Relayed messages that wait for the client, of which the oldest are dropped beyond this. They may be pieces of up to 2 s. */
const MAX_UNSENT_RELAYED = { maxBytes: 1 << 20, maxAgeMs: 2500 };
/** Text is never dropped; a client that leaves this much of it unread is as good as gone. */
const MAX_UNSENT_BYTES = 1 << 20;

let last: { frame: Buffer; atMs: number } | undefined;

/** When a frame goes out: all who hear the same are sent the same one after the other, and the clock is read once for them. */
function timeOf(frame: Buffer, now: () => number): number {
  if (frame !== last?.frame) last = { frame, atMs: now() };
  return last.atMs;
}

/** The way out to one client: keeps what waits in its socket small by dropping audio, never text, and counts the drops. */
export class SendQueue {
  readonly #socket: WebSocket;
  readonly #stream: Writable;
  readonly #onSlow: () => void;
  readonly #slowAfterMs: number;
  readonly #now: () => number;
  readonly #unsent = new UnsentAudio();
  /** As they go over the wire; the same bytes as for all who are sent them. */
  readonly #relayed = new BoundedFifo(MAX_UNSENT_RELAYED);
  #droppingSinceMs: number | undefined;
  #isSlow = false;
  #queued: string[] = [];
  droppedFrames = 0;

  /**
   * @param stream what `socket`, which compresses nothing, writes to
   * @param onSlow called when the client has not kept up for `slowAfterMs`
   * @param now what time it is, in ms
   */
  constructor(
    socket: WebSocket,
    stream: Writable,
    onSlow: () => void,
    { slowAfterMs }: Timings['sessions'],
    now = () => performance.now(),
  ) {
    this.#now = now;
    this.#socket = socket;
    this.#stream = stream;
    this.#onSlow = onSlow;
    this.#slowAfterMs = slowAfterMs;
    stream.on('drain', () => this.#sendRelayedDue());
  }

  /** How much audio waits in the socket. */
  get unsentMs(): number {
    return this.#unsent.durationMs(this.#socket.bufferedAmount);
  }

  /** How long the oldest relayed message has waited for the socket. */
  get relayedAgeMs(): number {
    return this.#relayed.ageMs(this.#now());
  }

  /** Notes a text that {@link flush} sends, or the next {@link sendText} before its own. @returns true if it is the first */
  queueText(text: string): boolean {
    return this.#queued.push(text) === 1;
  }

  /** Sends the noted texts in one write. */
  flush(): void {
    if (this.#queued.length === 0) return;
    const texts = this.#queued;
    this.#queued = [];
    this.#stream.cork();
    for (const text of texts) this.#sendNow(text);
    this.#stream.uncork();
  }

  sendText(text: string): void {
    this.flush();
    this.#sendNow(text);
  }

  #sendNow(text: string): void {
    if (this.#isSlow || this.#socket.bufferedAmount <= MAX_UNSENT_BYTES) {
      this.#unsent.addOther(Buffer.byteLength(text));
      this.#socket.send(text);
    } else {
      this.#giveUp();
    }
  }

  /** Sends one frame, or drops it. The hot path: runs for every frame to every client. */
  sendAudio(frame: Buffer): void {
    const nowMs = timeOf(frame, this.#now);
    if (this.unsentMs > MAX_UNSENT_AUDIO_MS) {
      this.#drop(nowMs);
      return;
    }
    this.#droppingSinceMs = undefined;
    // ws writes at once, so that this frame comes after its frames; and no frame may follow a close.
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    counts.framesOut += 1;
    const bytes = binaryFrame(frame);
    this.#unsent.add(bytes.length, nowMs);
    this.#stream.write(bytes);
  }

  /** Sends one message as it came from another client. While the client does not keep up it waits, and the oldest are dropped. */
  sendRelayed(message: Buffer): void {
    const nowMs = timeOf(message, this.#now);
    const bytes = binaryFrame(message);
    if (this.#relayed.isEmpty && !this.#stream.writableNeedDrain) {
      this.#writeRelayed(bytes);
      return;
    }
    this.#relayed.push(bytes, nowMs);
    if (!this.#countRelayedDrops()) return;
    this.#droppingSinceMs ??= nowMs;
    if (nowMs - this.#droppingSinceMs > this.#slowAfterMs) this.#giveUp();
  }

  /** The client has read all that the socket held. */
  #sendRelayedDue(): void {
    if (this.#relayed.isEmpty) return;
    this.#droppingSinceMs = undefined;
    const nowMs = this.#now();
    while (!this.#stream.writableNeedDrain) {
      const bytes = this.#relayed.shift(nowMs);
      if (!bytes) break;
      this.#writeRelayed(bytes);
    }
    this.#countRelayedDrops();
  }

  #writeRelayed(bytes: Buffer): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    counts.framesOut += 1;
    this.#unsent.addOther(bytes.length);
    this.#stream.write(bytes);
  }

  /** @returns whether messages were dropped since the last time */
  #countRelayedDrops(): boolean {
    const dropped = this.#relayed.takeDropped();
    counts.dropped.unread += dropped;
    return dropped > 0;
  }

  #drop(nowMs: number): void {
    this.droppedFrames += 1;
    counts.dropped.unread += 1;
    this.#droppingSinceMs ??= nowMs;
    if (nowMs - this.#droppingSinceMs > this.#slowAfterMs) this.#giveUp();
  }

  /** Once; what is sent after that are the last words to the client. */
  #giveUp(): void {
    if (this.#isSlow) return;
    this.#isSlow = true;
    this.#onSlow();
  }
}

/** Number of sent frames that are forgotten at a time. */
const FORGET_FRAMES = 64;

/**
 * The frames that a socket has not sent yet: the time from the oldest of them to the newest, however many make up a moment.
 * Mostly there are none, and nothing is allocated for those that come and go.
 */
class UnsentAudio {
  /**
   * End offset of each frame in everything that was written, and its arrival; entries from `#first` to `#end` are
   * valid.
   */
  readonly #endsAtBytes: number[] = [];
  readonly #atMs: number[] = [];
  #first = 0;
  #end = 0;
  #writtenBytes = 0;

  /** @param unsentBytes what the socket holds of all that was written */
  durationMs(unsentBytes: number): number {
    if (unsentBytes === 0) {
      this.#first = 0;
      this.#end = 0;
      return 0;
    }
    const sentBytes = this.#writtenBytes - unsentBytes;
    while (this.#first < this.#end && this.#endsAtBytes[this.#first]! <= sentBytes) {
      this.#first += 1;
    }
    if (this.#first === this.#end) return 0;
    return this.#atMs[this.#end - 1]! - this.#atMs[this.#first]! + FRAME_MS;
  }

  add(bytes: number, atMs: number): void {
    if (this.#first >= FORGET_FRAMES) this.#forget();
    this.addOther(bytes);
    this.#endsAtBytes[this.#end] = this.#writtenBytes;
    this.#atMs[this.#end] = atMs;
    this.#end += 1;
  }

  /** Counts bytes that are not audio but go the same way. */
  addOther(bytes: number): void {
    this.#writtenBytes += bytes;
  }

  #forget(): void {
    this.#endsAtBytes.splice(0, this.#first);
    this.#atMs.splice(0, this.#first);
    this.#end -= this.#first;
    this.#first = 0;
  }
}
