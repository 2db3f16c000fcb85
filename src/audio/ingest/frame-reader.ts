/**
 * Cuts the frames of compressed sound out of bytes that come in messages cut anywhere. Its memory is bounded, and its work linear in
 * the bytes and messages.
 */
export type FrameReader = {
  /**
   * Hands on each frame as soon as it is whole.
   * @throws {Error} when the bytes cannot be read
   */
  push(chunk: Buffer): void;
  /** True while a tag is passed over, as of a picture: there is no sound in what comes next. */
  readonly isInTag?: boolean;
  /** Bytes copied and looked at, and units read so far: the work done. */
  readonly work: number;
  /** Memory that it holds, bytes. */
  readonly heldBytes: number;
};

/**
 * Takes a frame, and how long its sound lasts, ms; 0 for the head of a stream, without which the frames behind it do not decode. A head begins its
 * stream anew.
 */
export type FrameSink = (frame: Buffer, durationMs: number) => void;
