import { PartylineError } from '../../protocol/errors.ts';
import { type Container, containerOf } from '../format.ts';
import { TokenBucket } from '../../token-bucket.ts';
import type { ContainerReader } from './container-reader.ts';
import type { Ingest } from './ingest.ts';
import { isFirstOggPage, OggReader } from './ogg-reader.ts';
import { WebmReader } from './webm-reader.ts';

/** Bytes without a packet in them after which a stream is refused: it is no voice recording. */
const MAX_UNREAD_BYTES = 1 << 18;
/** Recordings that may begin at once, and in each second after that: some recorders begin a new one for each chunk. */
const RECORDINGS = { perSecond: 5, burst: 20 };
/** The same of packets: the shortest last 2.5 ms, and behind a stall those of 8 s come at once. */
const PACKETS = { perSecond: 600, burst: 4000 };

/** Opus in Ogg or WebM: cuts the packets out of bytes that come in messages cut anywhere. */
export class ContainerIngest implements Ingest {
  readonly #container: Container;
  readonly #packets: Ingest;
  readonly #onFault: (fault: unknown) => void;
  #reader: ContainerReader | undefined;
  #unreadBytes = 0;
  #recordings: TokenBucket | undefined;
  #packetBudget: TokenBucket | undefined;
  #atMs = 0;
  #isClosed = false;

  /**
   * @param packets takes the Opus packets; closed with this
   * @param onFault called once, when the stream cannot be read (`unsupported_audio`) or begins anew too often (`rate_limited`)
   */
  constructor(container: Container, packets: Ingest, onFault: (fault: unknown) => void) {
    this.#container = container;
    this.#packets = packets;
    this.#onFault = onFault;
  }

  push(chunk: Buffer, atMs: number): void {
    if (this.#isClosed) return;
    this.#atMs = atMs;
    this.#unreadBytes += chunk.length;
    try {
      if (!this.#reader || beginsRecording(chunk)) this.#reader = this.#openRecording();
      this.#reader.push(chunk);
      if (this.#unreadBytes > MAX_UNREAD_BYTES) {
        throw new Error('No Opus was found in it for too long.');
      }
    } catch (fault) {
      this.#fail(fault);
    }
  }

  /** A container can be read from its beginning only. */
  skip(chunk: Buffer, atMs: number): void {
    this.push(chunk, atMs);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#packets.close();
  }

  /** A recorder that starts anew on the same connection begins a second stream where the first breaks off. */
  #openRecording(): ContainerReader {
    this.#recordings ??= new TokenBucket(RECORDINGS, this.#atMs);
    this.#packetBudget ??= new TokenBucket(PACKETS, this.#atMs);
    spend(this.#recordings, this.#atMs, 'Recordings begin too often.');
    const budget = this.#packetBudget;
    const onPacket = (packet: Buffer) => {
      // A packet that nobody may hear any more ends a stream that has been refused.
      if (this.#isClosed) return;
      spend(budget, this.#atMs, 'Packets are more than any sound needs.');
      this.#unreadBytes = 0;
      this.#packets.push(packet, this.#atMs);
    };
    return this.#container === 'ogg_opus' ? new OggReader(onPacket) : new WebmReader(onPacket);
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

/** @throws {PartylineError} `rate_limited` */
function spend(bucket: TokenBucket, nowMs: number, sentence: string): void {
  const retryAfterMs = Math.ceil(bucket.waitMs(1, nowMs));
  if (retryAfterMs > 0) throw new PartylineError('rate_limited', sentence, { retryAfterMs });
  bucket.spend(1, nowMs);
}

function beginsRecording(chunk: Buffer): boolean {
  const container = containerOf(chunk);
  return container === 'ogg_opus' ? isFirstOggPage(chunk) : container !== undefined;
}
