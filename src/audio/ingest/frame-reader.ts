/**
 * Extracts the frames of compressed audio from messages that are cut anywhere. Its memory is bounded, and its work linear in
 * the bytes and messages.
 */
export type FrameReader = {
  /**
   * Reads bytes; hands on each frame as soon as it is complete.
   * @throws {Error} if the bytes cannot be read
   */
  push(chunk: Buffer): void;
  /** True while a tag is skipped, such as a picture: the next bytes contain no sound. */
  readonly isInTag?: boolean;
  /** Number of bytes copied and examined, and of units read so far: the work done. */
  readonly work: number;
  /** Length of the memory that is held, bytes. */
  readonly heldBytes: number;
};

/**
 * Receives a frame, the duration of its sound, ms, and the rate of its samples. The duration is 0 for the head of a stream, without which
 * the frames after it do not decode. A head begins another stream.
 */
export type FrameSink = (frame: Buffer, durationMs: number, rateHz: number) => void;
