import { PartylineError } from '../../protocol/errors.ts';
import { type Container, containerOf } from '../format.ts';
import type { Ingest } from './ingest.ts';
import { oggPackets } from './ogg-packets.ts';
import { webmPackets } from './webm-packets.ts';

/** More than this without a packet in it is no voice recording: it would only pile up here. */
const MAX_UNREAD_BYTES = 1 << 18;
/** Set in the first page of an Ogg stream (RFC 3533 §6), in the byte of this index. */
const OGG_FIRST_PAGE_FLAG = 2;
const OGG_FLAGS_AT = 5;

/** Opus in Ogg or WebM: cuts the packets out of bytes that come in messages cut anywhere. */
export class ContainerIngest implements Ingest {
  readonly #container: Container;
  readonly #packets: Ingest;
  readonly #onFault: (fault: unknown) => void;
  #recording: Recording | undefined;
  /** Ends when the recordings that have begun so far have been read. */
  #reading: Promise<void> = Promise.resolve();
  #unreadBytes = 0;
  #lastChunkAtMs = 0;
  #isClosed = false;

  /**
   * @param packets takes the Opus packets; closed with this
   * @param onFault called once, with a `PartylineError` `unsupported_audio`, when the stream cannot be read
   */
  constructor(container: Container, packets: Ingest, onFault: (fault: unknown) => void) {
    this.#container = container;
    this.#packets = packets;
    this.#onFault = onFault;
  }

  push(chunk: Buffer, atMs: number): void {
    if (this.#isClosed) return;
    this.#lastChunkAtMs = atMs;
    this.#unreadBytes += chunk.length;
    if (this.#unreadBytes > MAX_UNREAD_BYTES) {
      this.#fail(new Error('No Opus was found in it for too long.'));
      return;
    }
    if (!this.#recording || beginsRecording(chunk)) this.#openRecording();
    // A copy: the message lies in memory of the socket's.
    this.#recording!.write(new Uint8Array(chunk));
  }

  /** A container can be read from its beginning only. */
  skip(chunk: Buffer, atMs: number): void {
    this.push(chunk, atMs);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#recording?.end();
    this.#packets.close();
  }

  /** A recorder that starts anew on the same connection begins a second stream where the first breaks off. */
  #openRecording(): void {
    this.#recording?.end();
    const recording = new Recording();
    this.#recording = recording;
    this.#reading = this.#reading.then(() => this.#read(recording));
  }

  async #read(recording: Recording): Promise<void> {
    const packetsOf = this.#container === 'ogg_opus' ? oggPackets : webmPackets;
    try {
      for await (const packet of packetsOf(recording.chunks)) {
        if (this.#isClosed) return;
        this.#unreadBytes = 0;
        if (packet.length > 0) this.#packets.push(packet, this.#lastChunkAtMs);
      }
    } catch (fault) {
      // A recording that breaks off where the next begins has been read as far as it goes.
      if (recording === this.#recording) this.#fail(fault);
    }
  }

  #fail(fault: unknown): void {
    if (this.#isClosed) return;
    this.close();
    const sentence = `The bytes cannot be read as ${this.#container}.`;
    this.#onFault(
      fault instanceof PartylineError
        ? fault
        : new PartylineError('unsupported_audio', sentence, { cause: fault }),
    );
  }
}

/** One stream of a container, from its beginning to where it breaks off. */
class Recording {
  readonly chunks: ReadableStream<Uint8Array>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor() {
    this.chunks = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      // Who reads has enough.
      cancel: () => {
        this.#controller = undefined;
      },
    });
  }

  write(chunk: Uint8Array): void {
    this.#controller?.enqueue(chunk);
  }

  end(): void {
    this.#controller?.close();
    this.#controller = undefined;
  }
}

function beginsRecording(chunk: Buffer): boolean {
  const container = containerOf(chunk);
  if (container !== 'ogg_opus') return container !== undefined;
  return ((chunk[OGG_FLAGS_AT] ?? 0) & OGG_FIRST_PAGE_FLAG) !== 0;
}
