import type { Codecs } from '../../src/audio/codecs.ts';
import type { FrameDecoder } from '../../src/audio/decoding/decoder-thread.ts';
import type { DecodedSound } from '../../src/audio/decoding/frame-codecs.ts';

type Sound = { samplesPerFrame: number; rateHz: number };

/** Decoder of frames that answers at once, with silence, and while it is stalled not before {@link release}. */
export class StallingDecoder {
  readonly #sound: Sound;
  #waiting: (() => void)[] = [];
  isStalled = false;

  constructor(sound: Sound) {
    this.#sound = sound;
  }

  /** Returns codecs that decode frames here. */
  in(codecs: Codecs): Codecs {
    return { ...codecs, frames: { open: () => this.#open() } };
  }

  /** Answers all jobs that wait. */
  release(): void {
    for (const answer of this.#waiting.splice(0)) answer();
  }

  #open(): FrameDecoder {
    const { samplesPerFrame, rateHz } = this.#sound;
    return {
      begin: () => {},
      decode: (frames) =>
        new Promise<DecodedSound>((resolve) => {
          const samples = new Float32Array(samplesPerFrame * frames.length);
          const answer = () => resolve({ samples, rateHz, faults: 0 });
          if (this.isStalled) this.#waiting.push(answer);
          else answer();
        }),
      close: () => {},
    };
  }
}
