import { type Container, containerOf } from '../format.ts';
import type { ContainerReader } from './container-reader.ts';
import type { Ingest } from './ingest.ts';
import { isFirstOggPage, OggReader } from './ogg-reader.ts';
import {
  RECORDINGS,
  StreamBudget,
  type StreamOverdraft,
  unreadable,
  TOO_MANY_RECORDINGS,
} from './stream-budget.ts';
import { WebmReader } from './webm-reader.ts';

/** Number of bytes without a packet after which a stream is refused: it is not a voice recording. */
const MAX_UNREAD_BYTES = 1 << 18;
/** Maximum number of bytes of a tag, which may contain a picture. */
const MAX_TAG_BYTES = 1 << 20;
/** Maximum packets per second, and at once: the shortest last 2.5 ms, and after a stall those of 8 s arrive at once. */
const PACKETS = { perSecond: 600, burst: 4000 };
/** Number of packets beyond {@link PACKETS} that are read from messages that had been received: those of a second. */
const MAX_PACKET_DEBT = 600;

/** Ingest of Opus in Ogg or WebM: extracts the packets from messages that are cut anywhere. */
export class ContainerIngest implements Ingest {
  readonly #container: Container;
  readonly #packets: Ingest;
  readonly #onFault: (fault: unknown) => void;
  #reader: ContainerReader | undefined;
  #unreadBytes = 0;
  /** Number of bytes of tags since the last packet. */
  #tagBytes = 0;
  readonly #recordings: StreamBudget;
  readonly #packetBudget: StreamBudget;
  #atMs = 0;
  #isClosed = false;

  /**
   * @param packets receives the Opus packets; closed with this ingest
   * @param onFault called once, when the stream cannot be read (`unsupported_audio`), begins again too often or has too many packets (`rate_limited`)
   * @param onOver called when it begins again more often, or has more packets, than its budget allows; absent if it is refused at once
   */
  constructor(
    container: Container,
    packets: Ingest,
    onFault: (fault: unknown) => void,
    onOver?: (overdraft: StreamOverdraft) => void,
  ) {
    this.#recordings = new StreamBudget(RECORDINGS, TOO_MANY_RECORDINGS, onOver);
    const tooMany = 'Packets are more than any sound needs.';
    this.#packetBudget = new StreamBudget(PACKETS, tooMany, onOver, MAX_PACKET_DEBT);
    this.#container = container;
    this.#packets = packets;
    this.#onFault = onFault;
  }

  push(chunk: Buffer, atMs: number): void {
    if (this.#isClosed) return;
    this.#atMs = atMs;
    if (this.isInTag()) this.#tagBytes += chunk.length;
    else this.#unreadBytes += chunk.length;
    try {
      if (!this.#reader || beginsRecording(chunk)) this.#reader = this.#openRecording();
      this.#reader.push(chunk);
      if (this.#unreadBytes > MAX_UNREAD_BYTES || this.#tagBytes > MAX_TAG_BYTES) {
        throw new Error('No Opus packets were found for too long.');
      }
    } catch (fault) {
      this.#fail(fault);
    }
  }

  /** Reads the bytes of a skipped message, too, because a container can be read only from its beginning. */
  skip(chunk: Buffer, atMs: number): void {
    this.push(chunk, atMs);
  }

  isInTag(): boolean {
    return this.#reader?.isInTag ?? false;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#packets.close();
  }

  /** Opens a reader: a recorder that restarts on the same connection begins a second stream where the first breaks off. */
  #openRecording(): ContainerReader {
    this.#recordings.spend(this.#atMs);
    const onPacket = (packet: Buffer) => {
      // Packets after a refusal are dropped.
      if (this.#isClosed) return;
      this.#packetBudget.spend(this.#atMs);
      this.#unreadBytes = 0;
      this.#tagBytes = 0;
      this.#packets.push(packet, this.#atMs);
    };
    return this.#container === 'ogg_opus' ? new OggReader(onPacket) : new WebmReader(onPacket);
  }

  #fail(fault: unknown): void {
    if (this.#isClosed) return;
    this.close();
    this.#onFault(unreadable(this.#container, fault));
  }
}

function beginsRecording(chunk: Buffer): boolean {
  const container = containerOf(chunk);
  return container === 'ogg_opus' ? isFirstOggPage(chunk) : container !== undefined;
}
