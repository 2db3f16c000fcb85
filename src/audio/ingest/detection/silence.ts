import type { InputFormat, SampleCodec, SampleFormat } from '../../format.ts';
import type { TimedMessage } from './pace.ts';

/** True for a message of one repeated byte, as which every format of samples represents digital silence. */
export function isDigitalSilence(message: Buffer): boolean {
  for (let i = 1; i < message.length; i += 1) if (message[i] !== message[0]) return false;
  return message.length > 8;
}

const USUAL_RATES_HZ = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 44_100, 48_000];
/** Returns the pace of 16-bit mono, bytes/ms. */
const bytesPerMsAt = (rateHz: number) => (2 * rateHz) / 1000;
/** Paces of 16-bit mono at the rates that are usual for it, bytes/ms. */
const USUAL_BYTES_PER_MS = USUAL_RATES_HZ.map(bytesPerMsAt);
/** Accuracy of a pace after half a second, as a share. */
const PACE_TOLERANCE = 0.04;

/** Bytes that only one format has as digital silence, with its codec. */
export const SILENT_BYTES: ReadonlyMap<number, SampleCodec> = new Map([
  [0xff, 'pcmu'],
  [0x7f, 'pcmu'],
  [0xd5, 'pcma'],
  [0x55, 'pcma'],
  [0x80, 'pcm_u8'],
  [0xfa, 'g722'],
]);

/**
 * Returns true if digital silence may be of 16-bit samples as well as of others: a client of one format would hear the
 * other as noise at full scale. At the paces that are usual for 16 bits, floats are practically never sent; bytes that are no
 * format's silence say nothing.
 */
export function isOfEitherWidth(silence: Buffer, bytesPerMs: number): boolean {
  if (silence[0] !== 0) return !SILENT_BYTES.has(silence[0]!);
  return USUAL_BYTES_PER_MS.every((usual) => Math.abs(bytesPerMs / usual - 1) > PACE_TOLERANCE);
}

/** Time over which the pace of silence is measured, ms: 20 ms of jitter are 3 % of it. */
const WINDOW_MS = 700;
/** Maximum number of windows in which a guess is corrected. */
const MAX_CORRECTIONS = 3;

/** Measures the pace of digital silence as long as it lasts: the guess after half a second may be wrong. */
export class SilencePace {
  #fromMs: number;
  #bytes: number;
  #windows = 0;

  /** @param arrivals messages so far, at least one */
  constructor(arrivals: readonly TimedMessage[]) {
    const [first, ...others] = arrivals as [TimedMessage, ...TimedMessage[]];
    this.#fromMs = first.atMs;
    this.#bytes = others.reduce((sum, { message }) => sum + message.length, 0);
  }

  /**
   * Processes one message of digital silence.
   * @param known guess so far; undefined while two formats are equally likely
   * @returns a better guess, if there is one
   */
  push(message: Buffer, nowMs: number, known: InputFormat | undefined): SampleFormat | undefined {
    this.#bytes += message.length;
    const elapsedMs = nowMs - this.#fromMs;
    if (elapsedMs < WINDOW_MS) return undefined;
    const bytesPerMs = this.#bytes / elapsedMs;
    this.#fromMs = nowMs;
    this.#bytes = 0;
    this.#windows += 1;
    if (message[0] !== 0 || (known && this.#windows > MAX_CORRECTIONS)) return undefined;
    const rateHz = USUAL_RATES_HZ.find(
      (usual) => Math.abs(bytesPerMs / bytesPerMsAt(usual) - 1) <= PACE_TOLERANCE,
    );
    if (rateHz === undefined) return undefined;
    const isKnown = known?.codec === 'pcm_s16le' && rateHz === known.rateHz && known.channels === 1;
    return isKnown ? undefined : { codec: 'pcm_s16le', rateHz, channels: 1 };
  }
}
