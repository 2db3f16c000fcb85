/** Cuts the Opus packets out of the bytes of one container stream. Its memory is bounded, and its work linear in the bytes. */
export type ContainerReader = {
  /**
   * Takes bytes, cut anywhere; hands on each packet as soon as it is whole.
   * @throws {Error} when they cannot be read, or hold no Opus of one or two channels
   */
  push(chunk: Buffer): void;
  /** Bytes copied and units read so far: the work done. */
  readonly work: number;
  /** Memory that it holds, bytes. */
  readonly heldBytes: number;
};

/** Takes a packet of at least one byte, in memory of its own. */
export type PacketSink = (packet: Buffer) => void;

/** The longest packet that is put together, bytes: more than 120 ms of Opus at any bit rate take. */
export const MAX_PACKET_BYTES = 1 << 16;

/** Where an `OpusHead` (RFC 7845 §5.1) says how many channels there are. */
const OPUS_HEAD_CHANNELS_AT = 9;

/** @throws {Error} if an `OpusHead` announces more than two channels */
export function checkOpusHead(head: Buffer): void {
  if ((head[OPUS_HEAD_CHANNELS_AT] ?? 1) > 2) throw new Error('It has more than two channels.');
}
