import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { TickReport } from './mix-engine.ts';
import type { MixPacket, MixPlan, Opening, SpeakerId } from './mix-plan.ts';

/** Messages to and from a mixing thread. One message contains many items, whose bytes are in one buffer. */

/** Number by which a thread identifies a room. */
export type RoomId = number;

/** Position and length in the bytes of a batch. */
export type Slice = { at: number; length: number };

export type MixCommand =
  | { command: 'open'; room: RoomId; limits: JitterBufferLimits }
  | { command: 'apply'; room: RoomId; plan: Sliced<MixPlan> }
  | {
      command: 'insert';
      room: RoomId;
      speaker: SpeakerId;
      packet: Sliced<MixPacket>;
      atMs: number;
    }
  | { command: 'tick'; room: RoomId; nowMs: number; movedMs: number; isSkipped: boolean }
  | { command: 'close'; room: RoomId }
  | { command: 'set complexity'; complexity: number };

export type MixEvent =
  | { answer: 'mixed'; room: RoomId; name: string; format: string; frame: Slice }
  | { answer: 'passed'; room: RoomId; speaker: SpeakerId; packet: Slice; restSamples: number }
  | { answer: 'concealed'; room: RoomId; speaker: SpeakerId; samples: number }
  | { answer: 'paused'; room: RoomId; speaker: SpeakerId; why: Opening }
  | { answer: 'ticked'; room: RoomId; report: TickReport }
  | { answer: 'fault'; fault: unknown };

/** Type in which buffers are replaced by slices of the batch. */
type Sliced<T> = T extends Buffer ? Slice : T extends object ? { [K in keyof T]: Sliced<T[K]> } : T;

/** One message between threads. */
export type MixBatch<T> = { items: T[]; bytes: Uint8Array<ArrayBuffer> };

/** Collects the items and bytes of one message. */
export class BatchWriter<T> {
  #items: T[] = [];
  #pieces: Uint8Array[] = [];
  #length = 0;

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  add(item: T): void {
    this.#items.push(item);
  }

  /** Adds bytes to the message; they must not be modified until {@link take}. */
  slice(bytes: Uint8Array): Slice {
    const at = this.#length;
    this.#pieces.push(bytes);
    this.#length += bytes.length;
    return { at, length: bytes.length };
  }

  /** Returns the message, whose bytes the caller transfers when it posts it, and begins another. */
  take(): MixBatch<T> {
    const bytes = new Uint8Array(this.#length);
    let at = 0;
    for (const piece of this.#pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    const batch = { items: this.#items, bytes };
    this.#items = [];
    this.#pieces = [];
    this.#length = 0;
    return batch;
  }
}

/** Returns a function that reads slices of a received message. */
export function sliceReader({ bytes }: MixBatch<unknown>): (slice: Slice) => Buffer {
  return ({ at, length }) => Buffer.from(bytes.buffer, bytes.byteOffset + at, length);
}
