import type { Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import { counters } from '../counters.ts';
import type { ServerMessage } from '../protocol/messages.ts';
import { FRAME_MS } from '../audio/format.ts';
import { BoundedFifo } from '../message-fifo.ts';
import { binaryFrame, keptBinaryFrame } from './binary-frame.ts';
import type { Pings } from './pings.ts';

/** Maximum duration of audio that a client has not read; beyond it audio is dropped. */
const MAX_UNSENT_AUDIO_MS = 250;
/**
 * Limits of the bytes and the age of relayed messages that wait for a client that is not known to be stalled; beyond them the
 * oldest are dropped. A message may hold up to 2 s.
 */
const MAX_UNSENT_RELAYED = { maxBytes: 1 << 20, maxAgeMs: 2500 };
/** Maximum length of text that a client may leave unread, bytes. Text is never dropped. */
const MAX_UNREAD_TEXT_BYTES = 1 << 20;
/** A longer time between two frames is a pause. */
const LONGEST_FRAME_MS = 120;

/** Events of its room that a client was not told during a stall; `sound` if audio of the room was dropped. */
export type MissedEvents = { peers: boolean; speaking: boolean; sound: boolean };

const NOTHING_MISSED: MissedEvents = { peers: false, speaking: false, sound: false };

export type SendQueueEvents = {
  /** Called once, when the client has left too much text unread. */
  onSlow: () => void;
  /** Called when the client reads again after a stall. */
  onCaughtUp: (missed: MissedEvents) => void;
  /** Does a piece of work in turn with that of other clients. */
  inTurn: (work: () => void) => void;
};

let last: { frame: Buffer; atMs: number } | undefined;

/** Sending time of a frame, which is sent to all its listeners one after the other, so that the clock is read once. */
function timeOf(frame: Buffer, now: () => number): number {
  if (frame !== last?.frame) last = { frame, atMs: now() };
  return last.atMs;
}

/**
 * Output queue of one client. Text is never dropped. Audio is dropped while the client does not read: the
 * queue knows what waits in the socket, and {@link Pings} estimate what the kernel holds. A client that does
 * not read is told the outcome of its room's events later.
 */
export class SendQueue {
  readonly #socket: WebSocket;
  readonly #stream: Writable;
  readonly #pings: Pings;
  readonly #pingEveryMs: number;
  readonly #events: SendQueueEvents;
  readonly #now: () => number;
  readonly #unsent = new UnsentAudio();
  /** Relayed messages as they go over the wire, sharing their bytes with other clients. */
  readonly #relayed = new BoundedFifo(MAX_UNSENT_RELAYED);
  /** True while a task to send waiting relayed messages is scheduled. */
  #hasTurn = false;
  #isSlow = false;
  #queued: string[] = [];
  /** Time at which audio was last sent. */
  #soundAtMs = -Infinity;
  /** Audio sent since the last ping, with a random start so that listeners of the same mix do not answer all at once. */
  #unpingedMs: number;
  /** Text that was sent since the client stopped reading. */
  #unreadTextBytes = 0;
  #missed = { ...NOTHING_MISSED };
  droppedFrames = 0;

  /**
   * @param stream what `socket`, which compresses nothing, writes to
   * @param pings pings of this client
   * @param pingEveryMs duration of audio between two pings
   * @param now returns the time, ms
   */
  constructor(
    socket: WebSocket,
    stream: Writable,
    pings: Pings,
    pingEveryMs: number,
    events: SendQueueEvents,
    now = () => performance.now(),
  ) {
    this.#now = now;
    this.#socket = socket;
    this.#stream = stream;
    this.#pings = pings;
    this.#pingEveryMs = pingEveryMs;
    this.#unpingedMs = pingEveryMs * Math.random();
    this.#events = events;
    stream.on('drain', () => this.#sendRelayedOn());
  }

  /** Takes the payload of a pong of the client. */
  answered(payload: Buffer, nowMs: number): void {
    if (this.#pings.answered(payload, nowMs)) this.#caughtUp();
  }

  /** Duration of audio that waits in the socket. */
  get unsentMs(): number {
    return this.#unsent.durationMs(this.#socket.bufferedAmount);
  }

  /** Duration of audio that waits for the client, here or in the kernel. */
  get waitingMs(): number {
    const { readUntilMs = Infinity } = this.#pings;
    const relayedMs = this.#relayed.ageMs(this.#now());
    // It stopped reading between the last answered ping and the next one.
    const beforePingMs = this.#pings.isStalled ? this.#pingEveryMs / 2 : 0;
    const unreadMs = this.#soundAtMs - readUntilMs + beforePingMs;
    return Math.max(0, this.unsentMs, relayedMs, unreadMs);
  }

  /**
   * Notes an event of the room that {@link flush} sends, or the next {@link sendText} before its own. While the client does not
   * read, only that it has missed one is noted.
   * @returns true if it is the first
   */
  queueText(text: string): boolean {
    if (!this.#isStalled(this.#now())) return this.#queued.push(text) === 1;
    const { type } = JSON.parse(text) as ServerMessage;
    this.#missed[type === 'speaking' ? 'speaking' : 'peers'] = true;
    return false;
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
    const bytes = Buffer.byteLength(text);
    if (this.#pings.isStalled) this.#unreadTextBytes += bytes;
    const unreadBytes = Math.max(this.#unreadTextBytes, this.#socket.bufferedAmount);
    if (this.#isSlow || unreadBytes <= MAX_UNREAD_TEXT_BYTES) {
      this.#unsent.addOther(bytes);
      this.#socket.send(text);
    } else {
      // The client's last messages are sent after that.
      this.#isSlow = true;
      this.#events.onSlow();
    }
  }

  /** Sends one frame, or drops it. The hot path: runs for every frame to every client. */
  sendAudio(frame: Buffer): void {
    const nowMs = timeOf(frame, this.#now);
    if (this.#isStalled(nowMs) || this.unsentMs > MAX_UNSENT_AUDIO_MS) {
      this.#drop(nowMs);
      return;
    }
    // ws writes at once, so that this frame comes after its frames; and no frame may follow a
    // close.
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    counters.framesOut += 1;
    const sound = binaryFrame(frame);
    const isPingDue = this.#isPingDue(nowMs, LONGEST_FRAME_MS);
    const bytes = isPingDue ? this.#pings.frame(nowMs, sound) : sound;
    this.#unsent.add(bytes.length, nowMs);
    this.#stream.write(bytes);
  }

  /**
   * Sends one message of another client unchanged. Messages wait while the client does not keep up; the oldest are dropped.
   * For a stalled client only the newest waits: what was sent before the stall was noticed is up to 1 s already.
   */
  sendRelayed(message: Buffer): void {
    const nowMs = timeOf(message, this.#now);
    const bytes = keptBinaryFrame(message);
    if (this.#relayed.isEmpty && !this.#stream.writableNeedDrain && !this.#isStalled(nowMs)) {
      this.#writeRelayed(bytes, nowMs);
      return;
    }
    this.#relayed.push(bytes, nowMs);
    if (this.#pings.isStalled) {
      this.#relayed.keepNewest();
      this.#mark(nowMs);
    }
    this.#countRelayedDrops();
  }

  /**
   * Sends waiting messages after the socket has drained. A megabyte may wait for each of hundreds of clients,
   * which are served in turn.
   */
  #sendRelayedOn(): void {
    if (this.#relayed.isEmpty || this.#hasTurn) return;
    this.#hasTurn = true;
    this.#events.inTurn(() => {
      this.#hasTurn = false;
      this.#sendRelayedDue();
    });
  }

  #sendRelayedDue(): void {
    const nowMs = this.#now();
    while (!this.#stream.writableNeedDrain && !this.#pings.isStalled) {
      const bytes = this.#relayed.shift(nowMs);
      if (!bytes) break;
      this.#writeRelayed(bytes, nowMs);
    }
    this.#countRelayedDrops();
  }

  #writeRelayed(bytes: Buffer, nowMs: number): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    counters.framesOut += 1;
    this.#unsent.addOther(bytes.length);
    // A message may be a piece of up to 2 s.
    if (!this.#isPingDue(nowMs, Infinity)) {
      this.#stream.write(bytes);
      return;
    }
    // The message may be long and is shared, so it is not copied behind the ping.
    const ping = this.#pings.frame(nowMs);
    this.#unsent.addOther(ping.length);
    this.#stream.cork();
    this.#stream.write(ping);
    this.#stream.write(bytes);
    this.#stream.uncork();
  }

  #countRelayedDrops(): void {
    counters.dropped.unread += this.#relayed.takeDropped();
  }

  #drop(nowMs: number): void {
    this.droppedFrames += 1;
    counters.dropped.unread += 1;
    if (!this.#pings.isStalled) return;
    this.#missed.sound = true;
    this.#mark(nowMs);
  }

  /** Notes that audio is sent. @param longestMs maximum duration of it @returns true if a ping must precede it */
  #isPingDue(nowMs: number, longestMs: number): boolean {
    const sinceMs = nowMs - this.#soundAtMs;
    // The first sound follows no pause.
    if (Number.isFinite(sinceMs)) this.#unpingedMs += Math.min(sinceMs, longestMs);
    this.#soundAtMs = nowMs;
    if (this.#unpingedMs < this.#pingEveryMs || !this.#pings.mayAsk(nowMs)) return false;
    // Only what is due is taken off: the pings to many listeners of a mix stay at random phases.
    this.#unpingedMs %= this.#pingEveryMs;
    return true;
  }

  /** Returns true if the client has stopped reading, so that further data would wait in the kernel. */
  #isStalled(nowMs: number): boolean {
    return nowMs >= this.#pings.checkAtMs && this.#pings.checkStall(nowMs, !this.#socket.isPaused);
  }

  /** Sends a ping after the last audio before a stall. */
  #mark(nowMs: number): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (this.#pings.takeMark(nowMs)) this.#stream.write(this.#pings.frame(nowMs));
  }

  #caughtUp(): void {
    const missed = this.#missed;
    this.#missed = { ...NOTHING_MISSED };
    this.#unreadTextBytes = 0;
    // The next audio measures the path again.
    this.#unpingedMs = this.#pingEveryMs;
    this.#events.onCaughtUp(missed);
    this.#sendRelayedOn();
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
