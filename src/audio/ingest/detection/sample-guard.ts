import type { SampleCodec, SampleFormat } from '../../format.ts';
import { bytesToNext, frameBytesOf, openSampleReader } from '../../samples.ts';
import { readAsSamples, unexplainedBitsPerByte } from './description-length.ts';
import { areAbsurdFloats } from './float-sizes.ts';
import type { FormatGuard, Look } from './format-guard.ts';
import { impossibleShareOf } from './g722-codes.ts';
import { RateWatch } from './rate-watch.ts';
import type { PaceHistory } from './pace-history.ts';
import { quickEstimate } from './quick-bits.ts';

/** Number of bytes in the middle of a message that are examined. */
const LOOKED_AT_BYTES = 256;
/** Minimum number of examined bytes; fewer say nothing. */
const LEAST_LOOKED_AT_BYTES = 48;
/** Hypotheses that are compared with the present one at each message. */
const RIVALS: readonly SampleCodec[] = ['pcm_s16le', 'pcm_s16be', 'pcmu', 'pcma', 'g722'];
/** Minimum advantage of another hypothesis, bits a byte, that makes a message suspect; more for fewer bytes. */
const SUSPECT_BY_BITS = 0.35;
/** Bits a byte below which messages are accepted without the comparison, which is most of the work. */
const LEAST_SUSPECT_BITS = 4.5;
const SUSPECT_BY_BITS_OF_ONE_BYTE = 40;
/** Bits a byte above which messages are suspect; G.722 and G.711 are denser than PCM. */
const MOST_BITS: Partial<Record<SampleCodec, number>> = { g722: 8.2, pcmu: 8.2, pcma: 8.2 };
const MOST_PCM_BITS = 7.5;
/** Increase, bits a byte, that makes a message suspect again after one was judged to be right. */
const WORSE_BY_BITS = 0.15;

/** Minimum and maximum number of bytes that are judged. */
const LEAST_JUDGED_BYTES = 256;
const MOST_JUDGED_BYTES = 2048;
/** Minimum advantage of another hypothesis of suspect messages, bits a byte; more for fewer bytes. */
const WRONG_BY_BITS = 0.3;
const WRONG_BY_BITS_OF_ONE_BYTE = 60;
/** Maximum bits a byte of sound: random bytes take more, and half of their samples are above half of full scale. */
const MOST_BITS_PER_BYTE = 7.75;
const MOST_G711_BITS_PER_BYTE = 8.2;
const LEAST_LOUD_SHARE = 0.4;
const MOST_LOUD_SHARE = 0.6;
/** Minimum share of clipped samples of clipped sound, which is not judged: its bytes look like soft sound in other hypotheses. */
const LEAST_CLIPPED_SHARE = 0.05;
/** Minimum range of values of clipped sound. */
const LEAST_RANGE = 1;
/** Maximum share of G.722 codes that no encoder produces: one in 16 of random bytes. */
const MOST_IMPOSSIBLE_SHARE = 0.02;

/** Ratio of the length of a message to those before it, either way, that suggests another sample rate. */
const OTHER_LENGTH = 1.3;
/** Number of different message lengths from which a sender seems to cut anywhere. */
const MAX_LENGTHS = 4;
/** Number of messages that are not examined after a false alarm; more after each. */
const CALM_MESSAGES = 50;
/** Rise of level, 12 dB, after which the detection from softer sound may be wrong. */
const RISE = 4;
/** Minimum level from which a rise is measured: −70 dBov. */
const LEAST_LEVEL = 3e-4;

/** Compares the bits of each message as samples of its format with its bits in other hypotheses. */
export class SampleGuard implements FormatGuard {
  readonly #format: SampleFormat;
  readonly #frameBytes: number;
  #mostBits: number;
  #mostExcess = 0;
  /** Bits a byte of the last message as samples of the format, and the advantage of the best other hypothesis. */
  #bits = 0;
  #excess = 0;
  /** Consecutive suspect messages, too short to be judged so far. */
  #suspect: Buffer[] = [];
  readonly #lengths: number[] = [];
  #wasShorter = false;
  #loudest = LEAST_LEVEL;
  #calm = 0;
  #nextCalm = CALM_MESSAGES;
  /** Watch of the rate; undefined where the rate cannot change unannounced. */
  readonly #rate: RateWatch | undefined;

  /** @param history pace history of the sender, from which the rate is derived; undefined if a file contains the rate */
  constructor(format: SampleFormat, history: PaceHistory | undefined) {
    this.#format = format;
    this.#frameBytes = Math.ceil(frameBytesOf(format));
    this.#mostBits = MOST_BITS[format.codec] ?? MOST_PCM_BITS;
    this.#rate = history && new RateWatch(format, history);
  }

  learn(message: Buffer): void {
    if (!this.#lengths.includes(message.length)) this.#lengths.push(message.length);
  }

  look(message: Buffer, startsAtBytes: number, atMs: number): Look {
    const found = this.#rate?.push(message, startsAtBytes, atMs);
    const look = this.#lookAt(message, startsAtBytes);
    return found && look !== 'wrong' ? found : look;
  }

  #lookAt(message: Buffer, startsAtBytes: number): Look {
    if (this.#calm > 0) {
      this.#calm -= 1;
      return 'as_before';
    }
    if (this.#rate && this.#isOfOtherRate(message.length)) return 'wrong';
    const whole = message.subarray(bytesToNext(this.#frameBytes, startsAtBytes));
    if (whole.length < LEAST_LOOKED_AT_BYTES) return 'as_before';
    const { codec, channels } = this.#format;
    const own = middleOf(whole, this.#frameBytes);
    const { bitsPerByte, level } = quickEstimate(own, codec, channels);
    if (this.#isSuspect(own, bitsPerByte, middleOf(message, 2))) {
      if (this.#judge(whole)) return 'wrong';
    } else if (this.#suspect.length > 0) {
      this.#suspect = [];
    }
    return this.#hasRisen(level) ? 'other_shape' : 'as_before';
  }

  reassure(): void {
    this.#calm = this.#nextCalm;
    this.#nextCalm *= 2;
  }

  /** True if the length suggests another rate. A longer message is suspect at once; a shorter one may be the last of a phrase, but not two. */
  #isOfOtherRate(length: number): boolean {
    const isKnown = this.#lengths.length >= MAX_LENGTHS || this.#lengths.includes(length);
    if (isKnown) {
      this.#wasShorter = false;
      return false;
    }
    const isLonger = this.#lengths.every((other) => length > other * OTHER_LENGTH);
    const isShorter = this.#lengths.every((other) => length * OTHER_LENGTH < other);
    if (isShorter && !this.#wasShorter) {
      this.#wasShorter = true;
      return false;
    }
    this.#lengths.push(length);
    return this.#lengths.length > 1 && (isLonger || isShorter);
  }

  #isSuspect(own: Buffer, ownBits: number, bytes: Buffer): boolean {
    const { codec } = this.#format;
    this.#bits = ownBits;
    if (ownBits > this.#mostBits || (codec === 'pcm_f32le' && areAbsurdFloats(own))) return true;
    const leastExcess = SUSPECT_BY_BITS + SUSPECT_BY_BITS_OF_ONE_BYTE / bytes.length;
    if (ownBits < LEAST_SUSPECT_BITS) return false;
    let best = unexplainedBitsPerByte(bytes);
    for (const rival of RIVALS) {
      if (rival !== codec) best = Math.min(best, quickEstimate(bytes, rival, 1).bitsPerByte);
    }
    this.#excess = ownBits - best;
    return this.#excess > Math.max(leastExcess, this.#mostExcess);
  }

  /** Weighs suspect messages as soon as enough have come. @returns true if they are of another format */
  #judge(whole: Buffer): boolean {
    const { codec } = this.#format;
    this.#suspect.push(whole.subarray(0, whole.length - (whole.length % this.#frameBytes)));
    const bytes = Buffer.concat(this.#suspect);
    if (bytes.length < LEAST_JUDGED_BYTES) return false;
    this.#suspect = [];
    const judged = bytes.subarray(0, MOST_JUDGED_BYTES);
    const isRead = codec !== 'g722' && !(codec === 'pcm_f32le' && areAbsurdFloats(judged));
    const samples = isRead ? openSampleReader(codec)(judged) : undefined;
    if (samples && isClipped(samples, this.#format.channels)) return false;
    const hypotheses = readAsSamples(judged);
    const found = hypotheses.find((hypothesis) => hypothesis.codec === codec)?.bitsPerByte ?? 8;
    // Codes of G.722 say little about loud sound.
    const own = codec === 'g722' ? Math.min(8, found) : found;
    const others = hypotheses.filter((hypothesis) => hypothesis.codec !== codec);
    const other = Math.min(
      unexplainedBitsPerByte(judged),
      ...others.map(({ bitsPerByte }) => bitsPerByte),
    );
    const leastExcess = WRONG_BY_BITS + WRONG_BY_BITS_OF_ONE_BYTE / judged.length;
    if (own > other + leastExcess || this.#isRandom(judged, own, samples)) return true;
    this.#mostBits = Math.max(this.#mostBits, this.#bits + WORSE_BY_BITS);
    this.#mostExcess = Math.max(this.#mostExcess, this.#excess + WORSE_BY_BITS);
    return false;
  }

  #isRandom(judged: Buffer, bits: number, samples: Float32Array | undefined): boolean {
    const { codec } = this.#format;
    if (codec === 'g722') return impossibleShareOf(judged) > MOST_IMPOSSIBLE_SHARE;
    if (!samples) return true;
    if (codec === 'pcmu' || codec === 'pcma') return bits > MOST_G711_BITS_PER_BYTE;
    return bits > MOST_BITS_PER_BYTE && isUniform(samples);
  }

  #hasRisen(level: number): boolean {
    if (level <= this.#loudest) return false;
    const hasRisen = level > this.#loudest * RISE;
    this.#loudest = level;
    return hasRisen;
  }
}

/** Returns bytes from the middle, beginning with a whole unit. */
function middleOf(bytes: Buffer, unitBytes: number): Buffer {
  const units = Math.floor(Math.min(bytes.length, LOOKED_AT_BYTES) / unitBytes);
  const skipped = Math.floor((bytes.length - units * unitBytes) / 2 / unitBytes);
  return bytes.subarray(skipped * unitBytes, (skipped + units) * unitBytes);
}

/** True for values distributed as in random bytes; sound is not, nor is noise, which would clip at that level. */
function isUniform(samples: Float32Array): boolean {
  let loud = 0;
  for (const sample of samples) if (Math.abs(sample) > 0.5) loud += 1;
  const share = loud / samples.length;
  return share > LEAST_LOUD_SHARE && share < MOST_LOUD_SHARE;
}

/** True if the highest or the lowest value occurs repeatedly. */
function isClipped(samples: Float32Array, channels: number): boolean {
  const [high, low] = [Math.max(...samples), Math.min(...samples)];
  let clipped = 0;
  for (let i = channels; i < samples.length; i += 1) {
    const sample = samples[i]!;
    if ((sample === high || sample === low) && sample === samples[i - channels]) clipped += 1;
  }
  return high - low > LEAST_RANGE && clipped > samples.length * LEAST_CLIPPED_SHARE;
}
