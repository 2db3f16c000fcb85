/**
 * G.722 (ITU-T, 11/88) at 64 kbit/s: sound at 16 kHz in two sub-bands of ADPCM, 6 bits for the lower and 2 for the upper, one byte for
 * two samples. Integer arithmetic as the recommendation gives it, so that decoders agree to the bit. The names in capitals are its blocks.
 */

export const G722_SAMPLES_PER_BYTE = 2;

/** Half of the symmetrical 24-tap quadrature mirror filter (table 11). */
const QMF = [3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11] as const;
const QMF_TAPS = 24;

/** Decision levels of the 6-bit quantizer (table 14). */
const Q6 = [
  0, 35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714, 786, 858, 940, 1023,
  1121, 1219, 1339, 1458, 1612, 1765, 1980, 2195, 2557, 2919,
] as const;
/** Output levels of the 6-bit, 4-bit and 2-bit inverse quantizers (tables 15, 17, 20), by code. */
const QM6 = [
  -136, -136, -136, -136, -24808, -21904, -19008, -16704, -14984, -13512, -12280, -11192, -10232,
  -9360, -8576, -7856, -7192, -6576, -6000, -5456, -4944, -4464, -4008, -3576, -3168, -2776, -2400,
  -2032, -1688, -1360, -1040, -728, 24808, 21904, 19008, 16704, 14984, 13512, 12280, 11192, 10232,
  9360, 8576, 7856, 7192, 6576, 6000, 5456, 4944, 4464, 4008, 3576, 3168, 2776, 2400, 2032, 1688,
  1360, 1040, 728, 432, 136, -432, -136,
] as const;
const QM4 = [
  0, -20456, -12896, -8968, -6288, -4240, -2584, -1200, 20456, 12896, 8968, 6288, 4240, 2584, 1200,
  0,
] as const;
const QM2 = [-7408, -1616, 7408, 1616] as const;
/** Change of the logarithm of the scale factor by each code, in the lower band and in the upper. */
const LOW_STEPS = [
  -60, 3042, 1198, 538, 334, 172, 58, -30, 3042, 1198, 538, 334, 172, 58, -30, -60,
] as const;
const HIGH_STEPS = [798, -214, 798, -214] as const;
/** Scale factors of one octave (SCALEL, SCALEH). */
const OCTAVE = [
  2048, 2093, 2139, 2186, 2233, 2282, 2332, 2383, 2435, 2489, 2543, 2599, 2656, 2714, 2774, 2834,
  2896, 2960, 3025, 3091, 3158, 3228, 3298, 3371, 3444, 3520, 3597, 3676, 3756, 3838, 3922, 4008,
] as const;
/** Decision level of the 2-bit quantizer. */
const Q2 = 564;

const MAX_LOW_LOG = 18432;
const MAX_HIGH_LOG = 22528;
/** Octaves between the logarithm and the scale factor. */
const LOW_OCTAVES = 8;
const HIGH_OCTAVES = 10;
const FIRST_LOW_STEP = 32;
const FIRST_HIGH_STEP = 8;
const FULL_SCALE = 32768;
const MAX_SUBBAND = 16383;

const saturate = (value: number): number =>
  value > 32767 ? 32767 : value < -FULL_SCALE ? -FULL_SCALE : value;
const clampSubBand = (value: number): number =>
  value > MAX_SUBBAND ? MAX_SUBBAND : value < -MAX_SUBBAND - 1 ? -MAX_SUBBAND - 1 : value;

/** Adaptive predictor and scale factor of one sub-band: the same in encoder and decoder. */
class SubBand {
  /** Prediction of the next sample. */
  prediction = 0;
  /** Scale factor of the quantizer. */
  scale: number;
  readonly #maxLog: number;
  readonly #octaves: number;
  #log = 0;
  #zeroPrediction = 0;
  /** Last two reconstructed samples, newest first, and the partial reconstructions. */
  #r1 = 0;
  #r2 = 0;
  #p1 = 0;
  #p2 = 0;
  /** Coefficients of the poles. */
  #a1 = 0;
  #a2 = 0;
  /** Coefficients of the zeros, and the last six differences, newest first. */
  readonly #b = new Int32Array(6);
  readonly #d = new Int32Array(6);

  constructor(scale: number, maxLog: number, octaves: number) {
    this.scale = scale;
    this.#maxLog = maxLog;
    this.#octaves = octaves;
  }

  /** Adapts to the quantized difference of a sample, and to the change of the scale by its code. */
  adapt(difference: number, logStep: number): void {
    this.#rescale(logStep);
    const reconstructed = saturate(this.prediction + difference);
    const partial = saturate(this.#zeroPrediction + difference);
    this.#movePoles(partial);
    this.#moveZeros(difference);
    this.#r2 = this.#r1;
    this.#r1 = reconstructed;
    this.#p2 = this.#p1;
    this.#p1 = partial;
    this.#predict();
  }

  /** LOGSCL, SCALEL and their counterparts in the upper band. */
  #rescale(logStep: number): void {
    const log = ((this.#log * 127) >> 7) + logStep;
    this.#log = Math.min(this.#maxLog, Math.max(0, log));
    const factor = OCTAVE[(this.#log >> 6) & 31]!;
    const shift = this.#octaves - (this.#log >> 11);
    this.scale = (shift < 0 ? factor << -shift : factor >> shift) << 2;
  }

  /** UPPOL2, UPPOL1. */
  #movePoles(partial: number): void {
    const sign = partial >> 15;
    const isLikeLast = sign === this.#p1 >> 15;
    const grown = saturate(this.#a1 << 2);
    const turned = Math.min(32767, isLikeLast ? -grown : grown);
    const towards = sign === this.#p2 >> 15 ? 128 : -128;
    const second = towards + (turned >> 7) + ((this.#a2 * 32512) >> 15);
    this.#a2 = Math.min(12288, Math.max(-12288, second));
    const first = saturate((isLikeLast ? 192 : -192) + ((this.#a1 * 32640) >> 15));
    const limit = saturate(15360 - this.#a2);
    this.#a1 = Math.min(limit, Math.max(-limit, first));
  }

  /** UPZERO. */
  #moveZeros(difference: number): void {
    const [b, d] = [this.#b, this.#d];
    const step = difference === 0 ? 0 : 128;
    const sign = difference >> 15;
    for (let i = 5; i >= 0; i -= 1) {
      b[i] = saturate((sign === d[i]! >> 15 ? step : -step) + ((b[i]! * 32640) >> 15));
      d[i] = i > 0 ? d[i - 1]! : difference;
    }
  }

  /** FILTEP, FILTEZ, PREDIC. */
  #predict(): void {
    const poles =
      ((this.#a1 * saturate(2 * this.#r1)) >> 15) + ((this.#a2 * saturate(2 * this.#r2)) >> 15);
    let zeros = 0;
    for (let i = 5; i >= 0; i -= 1) zeros += (this.#b[i]! * saturate(2 * this.#d[i]!)) >> 15;
    this.#zeroPrediction = saturate(zeros);
    this.prediction = saturate(saturate(poles) + this.#zeroPrediction);
  }
}

const openBands = () => ({
  low: new SubBand(FIRST_LOW_STEP, MAX_LOW_LOG, LOW_OCTAVES),
  high: new SubBand(FIRST_HIGH_STEP, MAX_HIGH_LOG, HIGH_OCTAVES),
});

/** Mirror filter in either direction: takes two values, and returns the two sums. */
class MirrorFilter {
  readonly #values = new Int32Array(QMF_TAPS);

  push(first: number, second: number): [evenSum: number, oddSum: number] {
    const values = this.#values;
    values.copyWithin(0, 2);
    values[QMF_TAPS - 2] = first;
    values[QMF_TAPS - 1] = second;
    let [even, odd] = [0, 0];
    for (let i = 0; i < QMF.length; i += 1) {
      even += values[2 * i]! * QMF[i]!;
      odd += values[2 * i + 1]! * QMF[QMF.length - 1 - i]!;
    }
    return [even, odd];
  }
}

/** Decodes the bytes of one stream; each holds two samples. */
export class G722Decoder {
  readonly #bands = openBands();
  readonly #filter = new MirrorFilter();

  decode(bytes: Uint8Array): Float32Array {
    const { low, high } = this.#bands;
    const samples = new Float32Array(bytes.length * G722_SAMPLES_PER_BYTE);
    for (let i = 0; i < bytes.length; i += 1) {
      const lowCode = bytes[i]! & 0x3f;
      const highCode = bytes[i]! >> 6;
      const lowSample = clampSubBand(low.prediction + ((low.scale * QM6[lowCode]!) >> 15));
      adaptLow(low, lowCode);
      const highSample = clampSubBand(high.prediction + ((high.scale * QM2[highCode]!) >> 15));
      adaptHigh(high, highCode);
      const [even, odd] = this.#filter.push(lowSample + highSample, lowSample - highSample);
      samples[2 * i] = saturate(odd >> 11) / FULL_SCALE;
      samples[2 * i + 1] = saturate(even >> 11) / FULL_SCALE;
    }
    return samples;
  }
}

/** Encodes each two samples of a stream as one byte; a sample without a second waits for the next piece. */
export class G722Encoder {
  readonly #bands = openBands();
  readonly #filter = new MirrorFilter();
  #waiting: number | undefined;

  encode(samples: Float32Array): Buffer {
    const bytes = Buffer.allocUnsafe((samples.length + (this.#waiting === undefined ? 0 : 1)) >> 1);
    let at = 0;
    for (const sample of samples) {
      if (this.#waiting === undefined) {
        this.#waiting = sample;
        continue;
      }
      bytes[at] = this.#encodePair(to16Bits(this.#waiting), to16Bits(sample));
      at += 1;
      this.#waiting = undefined;
    }
    return bytes;
  }

  #encodePair(first: number, second: number): number {
    const { low, high } = this.#bands;
    const [even, odd] = this.#filter.push(first, second);
    const lowCode = quantizeLow(saturate(((odd + even) >> 14) - low.prediction), low.scale);
    adaptLow(low, lowCode);
    const highCode = quantizeHigh(saturate(((odd - even) >> 14) - high.prediction), high.scale);
    adaptHigh(high, highCode);
    return (highCode << 6) | lowCode;
  }
}

const to16Bits = (sample: number) => saturate(Math.round(sample * FULL_SCALE));

/** Adapts the lower band, whose predictor receives only 4 of the 6 bits. */
function adaptLow(band: SubBand, code: number): void {
  band.adapt((band.scale * QM4[code >> 2]!) >> 15, LOW_STEPS[code >> 2]!);
}

function adaptHigh(band: SubBand, code: number): void {
  band.adapt((band.scale * QM2[code]!) >> 15, HIGH_STEPS[code]!);
}

/** QUANTL: codes count down from the decision level, separately for negative and positive differences. */
function quantizeLow(difference: number, scale: number): number {
  const size = difference >= 0 ? difference : -(difference + 1);
  let level = 1;
  while (level < Q6.length && size >= (Q6[level]! * scale) >> 12) level += 1;
  if (difference >= 0) return 62 - level;
  return level < 3 ? 64 - level : 34 - level;
}

/** QUANTH. */
function quantizeHigh(difference: number, scale: number): number {
  const size = difference >= 0 ? difference : -(difference + 1);
  const isFar = size >= (Q2 * scale) >> 12;
  return difference >= 0 ? (isFar ? 2 : 3) : isFar ? 0 : 1;
}
