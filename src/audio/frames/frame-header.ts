/** Header of a compressed frame. */
export type FrameHeader = {
  /** Length of the frame with its head. */
  bytes: number;
  /** Samples of each channel that it decodes to. */
  samples: number;
  rateHz: number;
  channels: number;
  /** Equal for all frames of one stream. */
  kind: number;
};

/** A format whose frames say how long they are. */
export type FrameFormat = {
  /** Bytes of a head. */
  headBytes: number;
  /** @returns undefined if no frame begins there; `headBytes` must be there to be read */
  parse: (bytes: Buffer, at: number) => FrameHeader | undefined;
};
