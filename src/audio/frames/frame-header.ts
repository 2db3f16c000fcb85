/** Header of a codec frame. */
export type FrameHeader = {
  /** Length of the frame including its header, bytes. */
  bytes: number;
  /** Number of decoded samples of each channel. */
  samples: number;
  rateHz: number;
  channels: number;
  /** Bits of the header that do not change within a stream: version, layer or profile, rate, and for ADTS the channels. */
  streamKey: number;
};

/** Format whose frame headers determine the length of the frame. */
export type FrameFormat = {
  /** Length of a header, bytes. */
  headerBytes: number;
  /**
   * Reads the header at offset `at`, from which at least `headerBytes` bytes must be present.
   * @returns undefined if no frame begins there
   */
  parse: (bytes: Buffer, at: number) => FrameHeader | undefined;
  /** Returns true for a whole frame that describes the file in place of sound. */
  isDescription?: (frame: Buffer) => boolean;
};
