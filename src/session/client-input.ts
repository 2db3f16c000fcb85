import type { DeclaredFormat, InputFormat } from '../audio/format.ts';
import { canBeginAnywhere } from '../audio/format.ts';
import type { Codecs } from '../audio/codecs.ts';
import type { Detection } from '../audio/ingest/detection/detector.ts';
import type { OpusOutlet, OpusSink } from '../audio/ingest/ingest.ts';
import { AudioInput } from '../audio/ingest/input.ts';
import type { LastPackets } from '../audio/ingest/splice.ts';
import { counters } from '../counters.ts';
import { bytesPerSecondOf } from './audio-budget.ts';
import { HeldAudio, type Turn } from './held-audio.ts';

/** Seconds of sound that are held of a client on its way into a room: a burst of two seconds, and a slow join. */
const MAX_HELD_SECONDS = 3;
/** Least limit of the held bytes: a format of few bytes may come in large messages. */
const MIN_MAX_HELD_BYTES = 128 * 1024;

export type ClientInputEvents = {
  /** Returns whether the client may be in a room in a moment. */
  isJoining: () => boolean;
  /** The format of an undeclared client has been found out or has changed. */
  onDetected: (format: InputFormat) => void;
  /** Takes a message of an unknown format that was sent to the room in which the client is. */
  onOpaque: (message: Buffer) => void;
  /** The bytes are not what the client says that they are. */
  onMismatch: (observed: Detection) => void;
  /** The input cannot go on. */
  onFault: (fault: unknown) => void;
};

/** How a client sends. */
type Sent = {
  /** Format that it says it sends. */
  declared: DeclaredFormat;
  /** Format that an undeclared client is taken to send until it is found to send another. */
  assumed?: InputFormat | undefined;
  /** Packets from which the input is to go on. */
  before?: LastPackets | undefined;
};

/** The binary messages of one client: held while it is on its way into a room, and then handed on to that room. */
export class ClientInput {
  readonly #codecs: Codecs;
  readonly #events: ClientInputEvents;
  /** Messages that came while the client was on its way into a room. */
  readonly #held: HeldAudio;
  /** Leads the packets of the client into its room. */
  readonly #outlet: OpusOutlet = { sink: toNobody };
  #input: AudioInput;
  #isInRoom = false;
  #inRoomSinceMs = -Infinity;
  /** Format for which {@link ClientInput.bytesPerSecond} was worked out. */
  #pricedFormat: InputFormat | undefined;
  #bytesPerSecond = bytesPerSecondOf(undefined);

  /** @param turn of the client's account among others */
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

  /** True while a client sends what nobody can tell yet, nor so what it understands. */
  isFormatUnknown(nowMs: number): boolean {
    return this.#input.isFormatUnknown(nowMs);
  }

  /** Bytes that a second of what the client sends may take. */
  get bytesPerSecond(): number {
    const { format } = this.#input;
    if (format !== this.#pricedFormat) {
      this.#pricedFormat = format;
      this.#bytesPerSecond = bytesPerSecondOf(format);
    }
    return this.#bytesPerSecond;
  }

  /** Reads what comes from now on in another way. */
  reopen(sent: Sent): void {
    this.#input.close();
    this.#input = this.#open(sent);
  }

  /** Sends what comes from now on, and what is held, into a room, or into no room. To be called behind {@link flush}. */
  attach(sink: OpusSink | undefined): void {
    this.#isInRoom = sink !== undefined;
    this.#outlet.sink = sink ?? toNobody;
    // Audio that was sent behind the join is meant for the room.
    this.#inRoomSinceMs = this.#held.sinceMs ?? performance.now();
    this.drain();
  }

  /** Takes one binary message of at least one byte. A message that is not meant for a room is dropped. */
  receive(message: Buffer, nowMs: number): void {
    counters.framesIn += 1;
    if (this.#isInRoom && this.#held.isEmpty) {
      this.#input.push(message, nowMs);
      return;
    }
    this.#held.hold({ message, atMs: nowMs });
    if (this.#isInRoom) {
      this.#held.flushDownTo(this.#maxHeldBytes);
    } else if (!this.#events.isJoining() || this.#held.bytes > this.#maxHeldBytes) {
      this.#passOver();
    }
  }

  /** Hands on at once what is held for the room in which the client is. */
  flush(): void {
    if (this.#isInRoom) this.#held.flush();
  }

  /** Hands on what is held, in turn with other clients, or passes it over where there is no room to send it to. */
  drain(): void {
    if (this.#isInRoom) this.#held.drain();
    else this.#passOver();
  }

  close(): void {
    this.#held.takeAll();
    this.#isInRoom = false;
    this.#outlet.sink = toNobody;
    this.#input.close();
  }

  #passOver(): void {
    for (const { message, atMs } of this.#held.takeAll()) {
      counters.dropped.not_in_room += 1;
      this.#input.skip(message, atMs);
    }
  }

  get #maxHeldBytes(): number {
    return Math.max(MAX_HELD_SECONDS * this.bytesPerSecond, MIN_MAX_HELD_BYTES);
  }

  #open({ declared, assumed, before }: Sent): AudioInput {
    const { onDetected, onMismatch, onFault } = this.#events;
    return new AudioInput(
      declared,
      this.#codecs,
      this.#outlet,
      { onDetected, onOpaque: (message, atMs) => this.#relay(message, atMs), onMismatch, onFault },
      before,
      assumed && canBeginAnywhere(assumed) ? assumed : undefined,
    );
  }

  /** Relays a message to the room in which it was sent: it may have been held since, while nobody knew its format. */
  #relay(message: Buffer, atMs: number): void {
    if (!this.#isInRoom || atMs < this.#inRoomSinceMs) counters.dropped.not_in_room += 1;
    else this.#events.onOpaque(message);
  }
}

const toNobody: OpusSink = () => {};
