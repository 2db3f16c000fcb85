import { type InputFormat, isSamples, type SampleFormat } from '../../format.ts';
import type { FormatGuard } from './format-guard.ts';
import { OpaqueGuard } from './opaque-guard.ts';
import type { PaceHistory } from './pace-history.ts';
import { OpusGuard } from './opus-guard.ts';
import { SampleGuard } from './sample-guard.ts';

/** Maximum number of channels of a file whose samples are compared with other hypotheses. */
const MOST_CHANNELS = 2;

/**
 * Returns a guard for a format.
 * @param history pace history of the sender
 * @returns undefined for formats that are checked by their readers
 */
export function guardOf(format: InputFormat, history: PaceHistory): FormatGuard | undefined {
  if (format.codec === 'opus') return new OpusGuard();
  if (format.codec === 'opaque') return new OpaqueGuard();
  return isSamples(format) ? new SampleGuard(format, history) : undefined;
}

/** Returns a guard of samples in a file that contains their rate; undefined for samples that are only sent in files. */
export function guardOfFile(inside: SampleFormat): FormatGuard | undefined {
  const isGuarded = inside.channels <= MOST_CHANNELS && inside.codec !== 'pcm_f64le';
  return isGuarded ? new SampleGuard(inside, undefined) : undefined;
}
