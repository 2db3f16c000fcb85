import type { DeclaredFormat, InputFormat } from '../audio/format.ts';
import { canBeginAnywhere } from '../audio/format.ts';
import type { Codecs } from '../audio/codecs.ts';
import type { Detection } from '../audio/ingest/detection/detector.ts';
import type { OpusTarget, OpusSink } from '../audio/ingest/ingest.ts';
import { AudioInput } from '../audio/ingest/input.ts';
import type { LastPackets } from '../audio/ingest/splice.ts';
import { counters } from '../counters.ts';
import { bytesPerSecondOf } from './audio-budget.ts';
import { HeldAudio, type Turn } from './held-audio.ts';

/**
 * Maximum duration of held audio of a client that is joining a room, or changing its format or mute, s: enough for a burst of 2 s
 * and a slow join.
 */
const MAX_HELD_SECONDS = 3;
/** Minimum of the limit on held bytes: a format of a low bit rate may come in large messages. */
const MIN_MAX_HELD_BYTES = 128 * 1024;

export type ClientInputEvents = {
  /** Returns true if the client may soon be in a room. */
  isJoining: () => boolean;
  /** Called when the format of an undeclared client has been detected or has changed. */
  onDetected: (format: InputFormat) => void;
  /** Takes a message of an unknown format that was sent to the room in which the client is, and its arrival time. */
  onOpaque: (message: Buffer, atMs: number) => void;
  /** Called when the bytes are not of the declared format. */
  onMismatch: (observed: Detection) => void;
  /** Called when the input has failed. */
  onFault: (fault: unknown) => void;
};

/** Settings of a client's input. */
type Sent = {
  /** Declared format. */
  declared: DeclaredFormat;
  /** Assumed format of an undeclared client, until another one is detected. */
  assumed?: InputFormat | undefined;
  /** Packets that the input continues. */
  before?: LastPackets | undefined;
};

/**
 * The binary messages of one client. While the client joins a room they are held, and then passed on to that room. Messages that follow a
 * request for another format, for a mute, or to leave, are held until the request is applied or refused.
 */
export class ClientInput {
  readonly #codecs: Codecs;
  readonly #events: ClientInputEvents;
  /** Messages that arrived while the client was joining a room, or after a request that may change where or how they are heard. */
  readonly #held: HeldAudio;
  /** Leads the packets of the client into its room. */
  readonly #target: OpusTarget = { sink: toNobody };
  #input: AudioInput;
  #isInRoom = false;
  #inRoomSinceMs = -Infinity;
  /** Format for which {@link ClientInput.bytesPerSecond} was computed. */
  #pricedFormat: InputFormat | undefined;
  #bytesPerSecond = bytesPerSecondOf(undefined);

  /** @param turn scheduler of this account's work among that of other accounts */
  constructor(sent: Sent, codecs: Codecs, turn: Turn, events: ClientInputEvents) {
    this.#codecs = codecs;
    this.#events = events;
    this.#held = new HeldAudio(({ message, atMs }) => this.#input.push(message, atMs), turn);
    this.#input = this.#open(sent);
  }

  /** Format that the client sends, as far as is known. */
  get format(): InputFormat | undefined {
    return this.#input.format;
  }

  /** True while the format that the client sends, and so the one that it understands, is unknown. */
  isFormatUnknown(nowMs: number): boolean {
    return this.#input.isFormatUnknown(nowMs);
  }

  /** Maximum number of bytes per second of the client's format. */
  get bytesPerSecond(): number {
    const { format } = this.#input;
    if (format !== this.#pricedFormat) {
      this.#pricedFormat = format;
      this.#bytesPerSecond = bytesPerSecondOf(format);
    }
    return this.#bytesPerSecond;
  }

  /** Arrival time of the next message that is handed on, if one is held, or else the present time, ms of the monotonic clock. */
  get nextAtMs(): number {
    return this.#held.sinceMs ?? performance.now();
  }

  /** Holds messages that come from now on, because they may be in another format, muted, or for no room, until {@link passMark}. */
  mark(): void {
    this.#held.mark();
  }

  /** Hands on what is held behind the first mark, up to the next: their format and mute have been decided. */
  passMark(): void {
    this.#held.passMark();
    // Audio outside of a room waits for the end of a join.
    if (this.#isInRoom) this.#held.drain();
  }

  /** Changes the settings for messages behind the first mark, and later ones. */
  reopen(sent: Sent): void {
    this.flush();
    // Sent before the change, to no room.
    this.#passOver();
    this.#input.close();
    this.#input = this.#open(sent);
  }

  /** Leads held and later messages into a room, or into no room. To be called after {@link flush}. */
  attach(sink: OpusSink | undefined): void {
    this.#isInRoom = sink !== undefined;
    // Audio that was sent behind the join is meant for the room.
    this.#inRoomSinceMs = this.nextAtMs;
    this.cut();
    this.#target.sink = sink ? this.#sinkSince(this.#inRoomSinceMs, sink) : toNobody;
    this.drain();
  }

  /** Ends a packet with what has been handed on: later messages do not continue it. To be called after {@link flush}. */
  cut(): void {
    this.#target.cutMs = this.nextAtMs;
  }

  /** Takes one binary message of at least one byte. A message outside of any room is dropped. */
  receive(message: Buffer, nowMs: number): void {
    counters.framesIn += 1;
    if (this.#isInRoom && this.#held.isEmpty) {
      this.#input.push(message, nowMs);
      return;
    }
    if (this.#held.isMarked && this.#held.bytes > this.#maxHeldBytes) {
      counters.dropped.late += 1;
      return;
    }
    this.#held.hold({ message, atMs: nowMs });
    if (this.#isInRoom) {
      this.#held.flushDownTo(this.#maxHeldBytes);
    } else if (!this.#events.isJoining() || this.#held.bytes > this.#maxHeldBytes) {
      this.#passOver();
    }
  }

  /** Hands on all messages before the first mark that are held for the present room, at once. */
  flush(): void {
    if (this.#isInRoom) this.#held.flush();
  }

  /** Hands on the held messages, in turn with other clients, or drops them if there is no room. */
  drain(): void {
    if (this.#isInRoom) this.#held.drain();
    else this.#passOver();
  }

  close(): void {
    this.#held.clear();
    this.#isInRoom = false;
    this.#target.sink = toNobody;
    this.#input.close();
  }

  /** Returns a sink that drops what was sent before a time, to another room or to none, and was held until its format was known. */
  #sinkSince(sinceMs: number, sink: OpusSink): OpusSink {
    return (packet, durationSamples, audioLevel, atMs) => {
      if (atMs < sinceMs) return;
      this.#target.sink = sink;
      sink(packet, durationSamples, audioLevel, atMs);
    };
  }

  #passOver(): void {
    for (const { message, atMs } of this.#held.takeAll()) {
      counters.dropped.not_in_room += 1;
      this.#input.skip(message, atMs);
    }
  }

  get #maxHeldBytes(): number {
    // Messages behind a mark may be in any format.
    const marked = this.#held.isMarked ? bytesPerSecondOf(undefined) : 0;
    return Math.max(MAX_HELD_SECONDS * Math.max(this.bytesPerSecond, marked), MIN_MAX_HELD_BYTES);
  }

  #open({ declared, assumed, before }: Sent): AudioInput {
    const { onDetected, onMismatch, onFault } = this.#events;
    return new AudioInput(
      declared,
      this.#codecs,
      this.#target,
      { onDetected, onOpaque: (message, atMs) => this.#relay(message, atMs), onMismatch, onFault },
      before,
      assumed && canBeginAnywhere(assumed) ? assumed : undefined,
    );
  }

  /** Relays a message to the room in which it was sent: it may have been held while its format was unknown. */
  #relay(message: Buffer, atMs: number): void {
    if (!this.#isInRoom || atMs < this.#inRoomSinceMs) counters.dropped.not_in_room += 1;
    else this.#events.onOpaque(message, atMs);
  }
}

const toNobody: OpusSink = () => {};
