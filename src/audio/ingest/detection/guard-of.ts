import { type InputFormat, isSamples } from '../../format.ts';
import type { FormatGuard } from './format-guard.ts';
import { OpaqueGuard, OpusGuard } from './packet-guards.ts';
import { SampleGuard } from './sample-guard.ts';

/** @returns undefined for formats that are checked by those who read them */
export function guardOf(format: InputFormat): FormatGuard | undefined {
  if (format.codec === 'opus') return new OpusGuard();
  if (format.codec === 'opaque') return new OpaqueGuard();
  return isSamples(format) ? new SampleGuard(format) : undefined;
}
