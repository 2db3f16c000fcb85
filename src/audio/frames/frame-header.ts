/** Header of a compressed frame. */
export type FrameHeader = {
  /** Length of the frame including its header, bytes. */
  bytes: number;
  /** Number of decoded samples of each channel. */
  samples: number;
  rateHz: number;
  channels: number;
  /** Bits of the header that are equal in all frames of a stream: version, layer or profile, rate, and for ADTS the channels. */
  streamKey: number;
};

/** A format whose frames contain their length. */
export type FrameFormat = {
  /** Length of a header, bytes. */
  headerBytes: number;
  /**
   * Reads the header at `at`, behind which at least `headerBytes` bytes must be present.
   * @returns undefined if no frame begins there
   */
  parse: (bytes: Buffer, at: number) => FrameHeader | undefined;
  /** Judges whether a whole frame describes the file, and has no sound. */
  isDescription?: (frame: Buffer) => boolean;
};
