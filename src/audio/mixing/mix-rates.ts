import { SAMPLE_RATE_HZ } from '../format.ts';
import { openLinearResampler } from '../linear-resampler.ts';
import type { Resampler, ResamplerFactory } from '../resampler.ts';

/** Rates, Hz, that have a resampler of their own in each mix in which they are heard. */
const COMMON_RATES_HZ = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
/** Maximum number of resamplers of other rates in a room: each costs about 1 % of a core while somebody speaks. */
const MAX_ODD_RESAMPLERS = 4;

/** Number of resamplers that are open in a room for rates that are not common. */
export type OddRates = { open: number };

/**
 * Resamplers of one mix, from 48 kHz to the rates of its outputs; outputs of one rate share one. Common rates and up to
 * {@link MAX_ODD_RESAMPLERS} others in a room have a resampler of their own; further rates are interpolated from the nearest common one.
 */
export class MixRates {
  readonly #openResampler: ResamplerFactory;
  readonly #odd: OddRates;
  readonly #rates = new Map<number, SharedRate>();

  constructor(openResampler: ResamplerFactory, odd: OddRates) {
    this.#openResampler = openResampler;
    this.#odd = odd;
  }

  /**
   * Opens a rate for one output. All outputs must be given the same frames, each once or several times in a row, in buffers that
   * differ from one frame to the next.
   */
  open(rateHz: number): Resampler {
    const rate = this.#rates.get(rateHz) ?? new SharedRate(this.#create(rateHz));
    this.#rates.set(rateHz, rate);
    rate.users += 1;
    return {
      process: (frame) => rate.process(frame),
      close: () => {
        rate.users -= 1;
        if (rate.users > 0) return;
        this.#rates.delete(rateHz);
        rate.close();
      },
    };
  }

  #create(rateHz: number): Resampler {
    if (rateHz === SAMPLE_RATE_HZ) return { process: (frame) => frame, close: () => {} };
    if (COMMON_RATES_HZ.includes(rateHz)) return this.#openResampler(SAMPLE_RATE_HZ, rateHz);
    if (this.#odd.open >= MAX_ODD_RESAMPLERS) return this.#interpolate(rateHz);
    const resampler = this.#openResampler(SAMPLE_RATE_HZ, rateHz);
    this.#odd.open += 1;
    return {
      process: (frame) => resampler.process(frame),
      close: () => {
        this.#odd.open -= 1;
        resampler.close();
      },
    };
  }

  #interpolate(rateHz: number): Resampler {
    const nearestHz = COMMON_RATES_HZ.reduce((nearest, common) =>
      Math.abs(common - rateHz) < Math.abs(nearest - rateHz) ? common : nearest,
    );
    const nearest = this.open(nearestHz);
    const resample = openLinearResampler(nearestHz, rateHz);
    return {
      process: (frame) => resample(nearest.process(frame)),
      close: () => nearest.close(),
    };
  }
}

/** A rate that outputs share: each frame is converted once. */
class SharedRate implements Resampler {
  readonly #resampler: Resampler;
  #frame: Float32Array | undefined;
  #converted: Float32Array = new Float32Array();
  /** Number of outputs. */
  users = 0;

  constructor(resampler: Resampler) {
    this.#resampler = resampler;
  }

  process(frame: Float32Array): Float32Array {
    if (frame !== this.#frame) this.#converted = this.#resampler.process(frame);
    this.#frame = frame;
    return this.#converted;
  }

  close(): void {
    this.#resampler.close();
  }
}
