import type { DeclaredFormat, InputFormat } from '../audio/format.ts';
import { canBeginAnywhere, isSamples } from '../audio/format.ts';
import type { Codecs } from '../audio/codecs.ts';
import type { Detection } from '../audio/ingest/detection/detector.ts';
import { HeldAudio, type Turn } from '../audio/ingest/held-audio.ts';
import type { OpusTarget, OpusSink } from '../audio/ingest/ingest.ts';
import { AudioInput } from '../audio/ingest/input.ts';
import type { TimedMessage } from '../audio/ingest/detection/pace.ts';
import { SoundBudget } from '../audio/ingest/sound-budget.ts';
import type { StreamOverdraft } from '../audio/ingest/stream-budget.ts';
import type { LastPackets } from '../audio/ingest/splice.ts';
import { frameBytesOf } from '../audio/samples.ts';
import { counters } from '../counters.ts';
import { bytesPerSecondOf } from './audio-budget.ts';

/**
 * Maximum duration of held audio of a client that is joining a room, or changing its format or mute, s: enough for a burst of 2 s
 * and a slow join.
 */
const MAX_HELD_SECONDS = 3;
/**
 * Minimum of the limit on held bytes: audio of a low bit rate may come in large messages, or in a short one every 2 ms, each of which
 * counts for more than its length (`HeldAudio`).
 */
const MIN_MAX_HELD_BYTES = 256 * 1024;

/** Number of changes of room or mute that are kept: more than the mutes and unmutes that `Uplink` tells apart. */
const MAX_CUTS = 32;

export type ClientInputEvents = {
  /** Returns true if the client may soon be in a room. */
  isJoining: () => boolean;
  /** Called when the format of an undeclared client has been detected or has changed. */
  onDetected: (format: InputFormat) => void;
  /** Called with a message of an unknown format that was sent while the client was in its present room, and with its arrival time, ms. */
  onOpaque: (message: Buffer, atMs: number) => void;
  /** Returns true while the client is muted. */
  isMuted?: () => boolean;
  /** Called when the bytes are not of the declared format. */
  onMismatch: (observed: Detection) => void;
  /** Called with the duration of sound that came too fast to be encoded or decoded, and was dropped, s. */
  onUncovered: (seconds: number) => void;
  /** Called when recordings begin, or formats change, more often than the budget allows. */
  onOver?: (overdraft: StreamOverdraft) => void;
  /** Called when the input has failed. */
  onFault: (fault: unknown) => void;
};

/** Settings of a client's input. */
type InputSettings = {
  /** Declared format. */
  declared: DeclaredFormat;
  /** Assumed format of an undeclared client, until another one is detected. */
  assumed?: InputFormat | undefined;
  /** Last packets of the previous input, whose sound this input continues. */
  before?: LastPackets | undefined;
};

/** Message of a client, with the number of bytes that were refused before it. */
type ReceivedMessage = TimedMessage & { refusedBytes: number };

const NOTHING = Buffer.alloc(0);

/** Returns the length after which samples of all channels begin again in a stream of a format, bytes; 1 if it does not consist of samples. */
function alignmentOf(format: InputFormat | undefined): number {
  const samples = format?.codec === 'wav' ? format.inside : format;
  return samples && isSamples(samples) ? frameBytesOf(samples) : 1;
}

/**
 * Receives the binary messages of one client. Messages that arrive while the client joins a room are held until it has joined. Messages that
 * follow a request for another format, for a mute, or to leave, are held until the request is applied or refused.
 */
export class ClientInput {
  readonly #codecs: Codecs;
  readonly #events: ClientInputEvents;
  /** Messages that arrived while the client was joining a room, or after a request that may change where or how they are heard. */
  readonly #held: HeldAudio<ReceivedMessage>;
  readonly #turn: Turn;
  /** Target of the packets of all its inputs: the sink of its room, or {@link toNobody}. */
  readonly #target: OpusTarget;
  #input: AudioInput;
  /** Number of bytes that were refused since the last received message. */
  #refusedBytes = 0;
  /** Number of bytes that are missing before the next message that is handed on. */
  #missingBytes = 0;
  #isInRoom = false;
  #inRoomSinceMs = -Infinity;
  /** Format for which {@link ClientInput.bytesPerSecond} was computed. */
  #pricedFormat: InputFormat | undefined;
  #bytesPerSecond = bytesPerSecondOf(undefined);

  /** @param turn scheduler of this account's work among that of other accounts */
  constructor(settings: InputSettings, codecs: Codecs, turn: Turn, events: ClientInputEvents) {
    this.#codecs = codecs;
    this.#events = events;
    this.#turn = turn;
    const sound = new SoundBudget(events.onUncovered, events.onOver);
    this.#target = { sink: toNobody, sound, turn };
    this.#held = new HeldAudio<ReceivedMessage>((received) => this.#handOn(received), turn);
    this.#input = this.#open(settings);
  }

  /** Format that the client sends, as far as is known. */
  get format(): InputFormat | undefined {
    return this.#input.format;
  }

  /** True while the format that the client sends, and so the one that it understands, is unknown. */
  isFormatUnknown(clock: () => number): boolean {
    return this.#input.isFormatUnknown(clock);
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
    // Bytes that were refused before the mark are missing in the format before it.
    if (this.#refusedBytes > 0) this.#hold(NOTHING, performance.now());
    this.#held.mark();
  }

  /** Hands on the messages between the first mark and the next: the request that set the first mark has been applied or refused. */
  passMark(): void {
    this.#held.passMark();
    // Audio outside of a room waits for the end of a join.
    if (this.#isInRoom) this.#held.drain();
  }

  /** Changes the settings for messages behind the first mark, and later ones. */
  reopen(settings: InputSettings): void {
    this.flush();
    // Messages that are still held were sent before the change, outside of any room.
    this.#skipHeld();
    const { declared } = settings;
    const unknown = declared === 'auto' ? [] : this.#input.takeUnknown(declared, performance.now());
    this.#input.close();
    this.#missingBytes = 0;
    this.#input = this.#open(settings);
    for (const { message, atMs } of unknown) this.#input.push(message, atMs);
  }

  /** Sends held and later messages to a room's sink, undefined if the client is in no room. To be called after {@link flush}. */
  attach(sink: OpusSink | undefined): void {
    this.#isInRoom = sink !== undefined;
    // Audio that was sent behind the join is meant for the room.
    this.#inRoomSinceMs = this.nextAtMs;
    this.cut();
    this.#target.sink = sink ? this.#sinkSince(this.#inRoomSinceMs, sink) : toNobody;
    this.drain();
  }

  /** Starts a new packet with the next message: no packet contains sound from both sides of this call. To be called after {@link flush}. */
  cut(): void {
    const before = this.#target.cutsMs ?? [];
    this.#target.cutsMs = [...before, this.nextAtMs].slice(-MAX_CUTS);
  }

  /** Receives one binary message of at least one byte. It is held while the client joins a room, and dropped if the client is in no room. */
  receive(message: Buffer, nowMs: number): void {
    counters.framesIn += 1;
    if (this.#isInRoom && this.#held.isEmpty) {
      const refusedBytes = this.#refusedBytes;
      this.#refusedBytes = 0;
      if (refusedBytes + this.#missingBytes === 0) this.#input.push(message, nowMs);
      else this.#handOn({ message, atMs: nowMs, refusedBytes });
      return;
    }
    if (this.#held.isMarked && this.#held.bytes > this.#maxHeldBytes) {
      counters.dropped.late += 1;
      this.refuse(message);
      return;
    }
    this.#hold(message, nowMs);
    if (this.#isInRoom) {
      this.#held.flushDownTo(this.#maxHeldBytes);
    } else if (!this.#events.isJoining() || this.#held.bytes > this.#maxHeldBytes) {
      this.#skipHeld();
    }
  }

  /** Notes a message that is dropped unseen: one of its samples may end in the next message. */
  refuse(message: Buffer): void {
    this.#refusedBytes += message.length;
  }

  /** Hands on all messages before the first mark that are held for the present room, at once. */
  flush(): void {
    if (!this.#isInRoom) return;
    this.#held.flush();
    this.#input.flush();
  }

  /** Hands on the held messages, in turn with other clients, or drops them if there is no room. */
  drain(): void {
    if (this.#isInRoom) this.#held.drain();
    else this.#skipHeld();
  }

  close(): void {
    this.#held.clear();
    this.#isInRoom = false;
    this.#target.sink = toNobody;
    this.#input.close();
  }

  /** Returns a sink that drops packets of messages from before `sinceMs`: sent outside of this room, and held until their format was known. */
  #sinkSince(sinceMs: number, sink: OpusSink): OpusSink {
    return (packet, durationSamples, audioLevel, atMs) => {
      if (atMs < sinceMs) return;
      this.#target.sink = sink;
      sink(packet, durationSamples, audioLevel, atMs);
    };
  }

  #hold(message: Buffer, atMs: number): void {
    this.#held.hold({ message, atMs, refusedBytes: this.#refusedBytes });
    this.#refusedBytes = 0;
  }

  #handOn(received: ReceivedMessage): void {
    const message = this.#alignedOf(received);
    if (message.length > 0) this.#input.push(message, received.atMs);
  }

  /** Returns a message without the end of a sample that began in refused bytes: those behind it would be misaligned for good. */
  #alignedOf({ message, refusedBytes }: ReceivedMessage): Buffer {
    const missingBytes = this.#missingBytes + refusedBytes;
    const alignment = alignmentOf(this.#input.format);
    const cutBytes = (alignment - (missingBytes % alignment)) % alignment;
    this.#missingBytes = message.length < cutBytes ? missingBytes + message.length : 0;
    return message.subarray(cutBytes);
  }

  #skipHeld(): void {
    for (const received of this.#held.takeAll()) {
      const message = this.#alignedOf(received);
      if (message.length === 0) continue;
      counters.dropped.not_in_room += 1;
      this.#input.skip(message, received.atMs);
    }
  }

  get #maxHeldBytes(): number {
    // Messages behind a mark may be in any format.
    const marked = this.#held.isMarked ? bytesPerSecondOf(undefined) : 0;
    return Math.max(MAX_HELD_SECONDS * Math.max(this.bytesPerSecond, marked), MIN_MAX_HELD_BYTES);
  }

  #open({ declared, assumed, before }: InputSettings): AudioInput {
    return new AudioInput(
      declared,
      this.#codecs,
      this.#target,
      { ...this.#events, onOpaque: (message, atMs) => this.#relay(message, atMs) },
      before,
      assumed && canBeginAnywhere(assumed) ? assumed : undefined,
      this.#turn,
      () => this.#maxHeldBytes,
    );
  }

  /** Relays a message to the room in which it was sent: it may have been held while its format was unknown. */
  #relay(message: Buffer, atMs: number): void {
    if (!this.#isInRoom || atMs < this.#inRoomSinceMs) counters.dropped.not_in_room += 1;
    else this.#events.onOpaque(message, atMs);
  }
}

const toNobody: OpusSink = () => {};
