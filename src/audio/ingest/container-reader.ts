/** Extracts the Opus packets from the bytes of one container stream. Its memory is bounded, and its work linear in the bytes. */
export type ContainerReader = {
  /**
   * Reads bytes, cut anywhere; hands on each packet as soon as it is complete.
   * @throws {Error} if the bytes cannot be read, or contain no Opus of one or two channels
   */
  push(chunk: Buffer): void;
  /** True while a tag is skipped, such as a picture: the next bytes contain no sound. */
  readonly isInTag?: boolean;
  /** Number of bytes copied and units read so far: the work done. */
  readonly work: number;
  /** Length of the memory that is held, bytes. */
  readonly heldBytes: number;
};

/** Receives a packet of at least one byte, in its own memory. */
export type PacketSink = (packet: Buffer) => void;

/** Maximum length of a packet, bytes: more than 120 ms of Opus at any bit rate. */
export const MAX_PACKET_BYTES = 1 << 16;

/** Position of the number of channels in an `OpusHead` (RFC 7845 §5.1). */
const OPUS_HEAD_CHANNELS_AT = 9;

/** @throws {Error} if an `OpusHead` announces more than two channels */
export function checkOpusHead(head: Buffer): void {
  if ((head[OPUS_HEAD_CHANNELS_AT] ?? 1) > 2)
    throw new Error('The Opus stream has more than two channels.');
}
