/** Encoder of libopus as the gateway uses it: mono, 20 ms, float samples between -1 and 1. There are two implementations. */
export type EncoderLibrary = {
  /** Name of the library, for the log. */
  readonly name: string;
  openEncoder(options: EncoderOptions): Promise<RawEncoder>;
};

/** Sample rates that Opus encodes without resampling, Hz (RFC 6716 §2.1.3). */
export const OPUS_RATES_HZ = [8000, 12_000, 16_000, 24_000, 48_000] as const;
export type OpusRateHz = (typeof OPUS_RATES_HZ)[number];

type EncoderOptions = { rateHz: OpusRateHz; bitrateBps: number; complexity: number };

type RawEncoder = {
  /**
   * @param frame 20 ms of samples
   * @throws {Error} if the frame is of another length, or after close()
   */
  encode(frame: Float32Array): Buffer;
  /** Sets the complexity from the next packet on: 0…10. */
  setComplexity(complexity: number): void;
  /**
   * Sets, from the next packet on, whether packets after a large one are smaller to compensate, or the bit
   * rate holds only on average.
   */
  setBitrateBounded(isBounded: boolean): void;
  /** Sets, from the next packet on, whether packets may depend on the decoder's state after earlier ones. */
  setPrediction(isEnabled: boolean): void;
  close(): void;
};

export type OpusDecoder = {
  /**
   * Decodes one packet; the number of samples is that of its header.
   * @throws {Error} if the bytes do not decode, or after close()
   */
  decode(packet: Uint8Array): Float32Array;
  /** Returns the `samples` lost samples before `next`: from the copy that `next` carries, or else concealed. */
  recover(next: Uint8Array, samples: number): Float32Array;
  /** Returns samples that stand in for `samples` lost ones; a multiple of 120. */
  conceal(samples: number): Float32Array;
  close(): void;
};
