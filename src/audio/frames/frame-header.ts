/** Header of a compressed frame. */
export type FrameHeader = {
  /** Length of the frame including its header. */
  bytes: number;
  /** Decoded samples of each channel. */
  samples: number;
  rateHz: number;
  channels: number;
  /** Equal for all frames of one stream. */
  kind: number;
};

/** A format whose frames contain their length. */
export type FrameFormat = {
  /** Length of a header. */
  headBytes: number;
  /** @returns undefined if no frame begins at `at`; at least `headBytes` bytes must be present from there */
  parse: (bytes: Buffer, at: number) => FrameHeader | undefined;
};
