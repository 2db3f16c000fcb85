import { sweep } from './sound.ts';

/**
 * A tone that rises steadily and begins again every 10 s, so that its frequency tells when a moment of it was said: what is missing or
 * repeated at the far end is seen in it.
 */

const PERIOD_MS = 10_000;
const FROM_HZ = 500;
const TO_HZ = 2500;
const AMPLITUDE = 0.5;
const WINDOW_MS = 40;
/** Distance of the windows in which the tone is looked at. */
const HOP_MS = 20;
const QUIET = 0.08;
/** Windows whose median counts: where sounds are joined a window holds a piece of both. */
const MEDIAN_OF = 7;

/** One period at 48 kHz. */
export const risingTone = (): Float32Array => sweep([FROM_HZ, TO_HZ], AMPLITUDE, PERIOD_MS);

/** A stretch of sound in which nothing but the tone, or silence, was heard. */
export type Heard = { samples: Float32Array; rateHz: number };

/** Description of a change, as its listener heard it. */
export type Seam = {
  /** Longest silence within the sound. */
  gapMs: number;
  /** Most that is missing of what was said. */
  missingMs: number;
  /** Most that was heard again. */
  repeatedMs: number;
  /** Share of the time in which the tone was heard, 0 to 1. */
  share: number;
};

/** Returns the most that is missing or repeated at several listeners, ms. */
export const worstOf = (...seams: Seam[]): number =>
  Math.max(...seams.flatMap(({ missingMs, repeatedMs }) => [missingMs, repeatedMs]));

/** Describes what became of the tone between its first and its last moment. */
export function describeSeam({ samples, rateHz }: Heard): Seam {
  const hop = (rateHz * HOP_MS) / 1000;
  const size = (rateHz * WINDOW_MS) / 1000;
  const windows: (number | undefined)[] = [];
  for (let at = 0; at + size <= samples.length; at += hop) {
    windows.push(placeMs(samples.subarray(at, at + size), rateHz));
  }
  const first = windows.findIndex((place) => place !== undefined);
  const last = windows.findLastIndex((place) => place !== undefined);
  if (first < 0) return { gapMs: Infinity, missingMs: Infinity, repeatedMs: 0, share: 0 };
  const within = windows.slice(first, last + 1);
  const sounding = within.filter((place) => place !== undefined);
  return {
    gapMs: longestRun(within) * HOP_MS,
    ...driftOf(sounding),
    share: sounding.length / within.length,
  };
}

/** The moment of the tone that is heard in a window, ms from its beginning; undefined for silence. */
function placeMs(window: Float32Array, rateHz: number): number | undefined {
  const crossings: number[] = [];
  let power = 0;
  for (let i = 1; i < window.length; i += 1) {
    const [before, after] = [window[i - 1]!, window[i]!];
    power += after * after;
    if (before < 0 && after >= 0) crossings.push(i - 1 + before / (before - after));
  }
  if (Math.sqrt(power / window.length) < QUIET || crossings.length < 3) return undefined;
  const cycles = crossings.length - 1;
  const frequencyHz = (cycles * rateHz) / (crossings.at(-1)! - crossings[0]!);
  const middle = (crossings[0]! + crossings.at(-1)!) / 2;
  const at = ((frequencyHz - FROM_HZ) / (TO_HZ - FROM_HZ)) * PERIOD_MS;
  return at - (middle * 1000) / rateHz;
}

/** Most by which the moments that are heard run ahead of steady time, and fall behind it. */
function driftOf(places: number[]): { missingMs: number; repeatedMs: number } {
  const offsets = unwrap(places.map((place, i) => place - i * HOP_MS));
  const smooth = offsets.map((_, i) => {
    const from = Math.max(0, Math.min(i - (MEDIAN_OF >> 1), offsets.length - MEDIAN_OF));
    return median(offsets.slice(from, from + MEDIAN_OF));
  });
  let [lowest, highest, missingMs, repeatedMs] = [Infinity, -Infinity, 0, 0];
  for (const offset of smooth) {
    lowest = Math.min(lowest, offset);
    highest = Math.max(highest, offset);
    missingMs = Math.max(missingMs, offset - lowest);
    repeatedMs = Math.max(repeatedMs, highest - offset);
  }
  return { missingMs: Math.round(missingMs), repeatedMs: Math.round(repeatedMs) };
}

/** The offsets without whole periods by which they differ from those before. */
function unwrap(offsets: number[]): number[] {
  const unwrapped: number[] = [];
  for (const offset of offsets) {
    const before = unwrapped.length > 0 ? median(unwrapped.slice(-MEDIAN_OF)) : offset;
    unwrapped.push(offset - Math.round((offset - before) / PERIOD_MS) * PERIOD_MS);
  }
  return unwrapped;
}

function longestRun(places: (number | undefined)[]): number {
  let [run, longest] = [0, 0];
  for (const place of places) {
    run = place === undefined ? run + 1 : 0;
    longest = Math.max(longest, run);
  }
  return longest;
}

const median = (values: number[]) =>
  values.toSorted((one, other) => one - other)[values.length >> 1] ?? 0;
