import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { TickReport } from './mix-engine.ts';
import type { MixPacket, MixPlan, Opening, SpeakerId } from './mix-plan.ts';

/** Messages to and from a mixing thread: many small parts in one message, their bytes in one buffer beside them. */

/** A room, as a thread knows it. */
export type RoomId = number;

/** Where something lies in the bytes of its batch. */
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
  | { command: 'tick'; room: RoomId; nowMs: number }
  | { command: 'close'; room: RoomId }
  | { command: 'set complexity'; complexity: number };

export type MixEvent =
  | { answer: 'mixed'; room: RoomId; name: string; format: string; frame: Slice }
  | { answer: 'passed'; room: RoomId; speaker: SpeakerId; packet: Slice }
  | { answer: 'concealed'; room: RoomId; speaker: SpeakerId; samples: number }
  | { answer: 'paused'; room: RoomId; speaker: SpeakerId; why: Opening }
  | { answer: 'ticked'; room: RoomId; report: TickReport }
  | { answer: 'fault'; fault: unknown };

/** The same with its bytes elsewhere. */
type Sliced<T> = T extends Buffer ? Slice : T extends object ? { [K in keyof T]: Sliced<T[K]> } : T;

/** One message from thread to thread. */
export type MixBatch<T> = { items: T[]; bytes: Uint8Array<ArrayBuffer> };

/** Gathers what goes into one message. */
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

  /** Keeps bytes for the message; they must not be written to until it goes. */
  slice(bytes: Uint8Array): Slice {
    const at = this.#length;
    this.#pieces.push(bytes);
    this.#length += bytes.length;
    return { at, length: bytes.length };
  }

  /** Hands the message out, to be posted with its bytes transferred, and begins another. */
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

/** Reads slices of a message that has come. */
export function sliceReader({ bytes }: MixBatch<unknown>): (slice: Slice) => Buffer {
  return ({ at, length }) => Buffer.from(bytes.buffer, bytes.byteOffset + at, length);
}
