import {
  type AudioFormat,
  type DeclaredFormat,
  formatAudioFormat,
  type SampleFormat,
} from '../../src/audio/format.ts';
import type { TestClient } from './client.ts';
import { eventually } from './gateway.ts';
import { findGlitches } from './glitches.ts';
import { amplitudeOf, decodeOpus, energyOf, joinSamples, play, toDb } from './sound.ts';
import { watchStalls } from './machine-stalls.ts';
import type { GatewayInUse } from './use-gateway.ts';

/** Helpers of tests that listen to the audio of a real gateway, on a machine that is not always on time. */

export const OPUS: AudioFormat = { codec: 'opus' };
export const PCM: SampleFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };

/** Tolerance of a level, dB. */
export const toleranceOf = (format: AudioFormat) => (format.codec === 'opus' ? 1.5 : 0.5);

export const hearAs = (format: AudioFormat, frames: Buffer[]) =>
  format.codec === 'opus' ? decodeOpus(frames) : joinSamples(format, frames);

export const powerOf = (sound: Float32Array) => energyOf(sound) / sound.length;

/** The tone that is described: its frequency, amplitude and length. */
export const TONE_HZ = 700;
export const AMPLITUDE = 0.4;
export const TONE_MS = 1700;
export const SETTLED_SAMPLES = 14_400;
const SECOND_SAMPLES = 48_000;
export const ENOUGH_MS = (SETTLED_SAMPLES + SECOND_SAMPLES) / 48;

/** A second of the tone, as an ear would describe it: by what is usual in 100 ms, and by every glitch. */
export async function describeTone(format: AudioFormat, frames: Buffer[]) {
  const sound = await hearAs(format, frames);
  const settled = sound.subarray(SETTLED_SAMPLES, SETTLED_SAMPLES + SECOND_SAMPLES);
  const tenths = Array.from({ length: 10 }, (_, i) => {
    const tenth = settled.subarray(i * 4800, (i + 1) * 4800);
    const amplitude = amplitudeOf(tenth, TONE_HZ);
    // Power that is 10 Hz away counts as the rest.
    const restDb = 10 * Math.log10((2 * powerOf(tenth)) / amplitude ** 2 - 1);
    return { offDb: toDb(amplitude / AMPLITUDE), restDb };
  });
  const offDb = median(tenths.map((tenth) => tenth.offDb));
  const restDb = median(tenths.map((tenth) => tenth.restDb));
  return {
    tone: restDb < -20 ? 'pure' : `${restDb.toFixed(1)} dB of something else`,
    level: Math.abs(offDb) <= toleranceOf(format) ? 'right' : `${offDb.toFixed(2)} dB`,
    glitches: findGlitches(settled),
  };
}

const median = (values: number[]) =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)]!;

/** A description of the tone as it was sent. */
export const AS_SENT = { tone: 'pure', level: 'right', glitches: [] };

/** Duration of the audio near the beginning that comes late and all at once, ms. */
const HICCUP_MS = 160;

/**
 * Sends messages at their pace, but for a hiccup near the beginning: the gateway then holds a little more, so that how late
 * this machine is now and then is not heard.
 */
export async function speak(client: TestClient, messages: Buffer[], everyMs = 20): Promise<void> {
  // Two, because a resampler keeps a little of the first: the gateway counts from the first that is
  // whole.
  const [onTime, late] = [2, 2 + Math.ceil(HICCUP_MS / everyMs)];
  for (const message of messages.slice(0, onTime)) client.sendAudio(message);
  await new Promise((resolve) => setTimeout(resolve, HICCUP_MS));
  for (const message of messages.slice(onTime, late)) client.sendAudio(message);
  await play(client, messages.slice(late), undefined, everyMs);
}

/**
 * Time for which an attempt of {@link undisturbed} waits for what was said, ms. It comes soon; if the machine was busy, perhaps never. An attempt
 * that waited for longer would leave no time for another.
 */
export const HEARD_WITHIN_MS = 10_000;

/** Waits until what was said has been heard. */
export const untilHeard = (what: string, condition: () => boolean): Promise<void> =>
  eventually(what, condition, HEARD_WITHIN_MS);

/** Time without a frame after which what was said before has been heard, ms. */
const PAUSE_MS = 500;

/** Waits until clients have heard nothing for a while: what was said before has then been heard to its end. */
export async function untilPause(clients: TestClient[]): Promise<void> {
  let [count, sinceMs] = [-1, 0];
  await untilHeard('a pause', () => {
    const countNow = clients.reduce((sum, { frames }) => sum + frames.length, 0);
    if (countNow !== count) [count, sinceMs] = [countNow, performance.now()];
    return performance.now() - sinceMs >= PAUSE_MS;
  });
}

/** Waits for a pause, and forgets what clients heard before it: nothing of it is then part of what they hear next. */
export async function forgetHeard(clients: TestClient[]): Promise<void> {
  await untilPause(clients);
  for (const { frames } of clients) frames.length = 0;
}

/** Longer than this the gateway does not bridge what it was kept from doing. */
const MAX_STALL_MS = 60;
/** An attempt without a longer stall is not made again. Less than {@link MAX_STALL_MS}: the media worker may be kept longer than what measures it. */
const SHORT_STALL_MS = 40;
const MAX_ATTEMPTS = 8;
/** Attempts of which the least disturbed is taken, if it was below {@link MAX_STALL_MS}. */
const ENOUGH_ATTEMPTS = 3;
/** Time after which no further attempt is begun, ms: one that waits in vain for sound takes 10 s more. */
const LAST_ATTEMPT_AFTER_MS = 50_000;

/**
 * Makes a recording again if this process, or a core of the machine, stalled meanwhile: what is heard then is the machine, not the gateway.
 * `attempt` records only, and is judged when it has been returned; the least disturbed one is.
 * @param attempt gets its number, for rooms of its own; one whose clients were there before begins with {@link forgetHeard}, and
 *   returns copies of what they hear; and `note`, which it calls with waits for other processes that lengthen what is heard, ms: the
 *   longest counts like a stall of this process
 * @param lastAfterMs time after which no further attempt is begun
 */
export async function undisturbed<T>(
  attempt: (number: number, note: (waitedMs: number) => void) => Promise<T>,
  lastAfterMs = LAST_ATTEMPT_AFTER_MS,
): Promise<T> {
  const startMs = performance.now();
  let best: { stallMs: number; outcome: PromiseSettledResult<T> } | undefined;
  for (let number = 1; ; number += 1) {
    const longestStallMs = await watchStalls();
    let notedMs = 0;
    const note = (waitedMs: number) => {
      notedMs = Math.max(notedMs, waitedMs);
    };
    const [outcome] = await Promise.allSettled([attempt(number, note)]);
    const stallMs = Math.max(longestStallMs(), notedMs);
    if (!best || stallMs < best.stallMs) best = { stallMs, outcome };
    const isEnough = number >= ENOUGH_ATTEMPTS && best.stallMs < MAX_STALL_MS;
    const isLast = number === MAX_ATTEMPTS || performance.now() - startMs > lastAfterMs;
    if (best.stallMs >= SHORT_STALL_MS && !isEnough && !isLast) continue;
    // A disturbed attempt may have waited for something that never comes.
    if (best.outcome.status === 'rejected') throw best.outcome.reason;
    return best.outcome.value;
  }
}

/** Attempts of {@link leastOf} without a stall, after which there is no further one. */
const MOST_UNSTALLED = 6;
/** Time after which it makes no further attempt, ms. */
const LAST_MEASURED_AFTER_MS = 200_000;

/**
 * Records again until what is measured in it is small enough: it depends on chance, and is greater on a machine that stalls.
 * @returns the least that was measured
 */
export async function leastOf<T>(
  record: () => Promise<T>,
  measure: (recorded: T) => Promise<number>,
  enough: number,
): Promise<number> {
  const startMs = performance.now();
  let [least, unstalled] = [Infinity, 0];
  do {
    const longestStallMs = await watchStalls();
    const recorded = await record();
    if (longestStallMs() < SHORT_STALL_MS) unstalled += 1;
    least = Math.min(least, await measure(recorded));
    if (performance.now() - startMs > LAST_MEASURED_AFTER_MS) break;
  } while (least > enough && unstalled < MOST_UNSTALLED);
  return least;
}

/** One that sends, and two that hear it as Opus and as samples, in a room of their own. */
export async function openRoom(enter: GatewayInUse['enter'], name: string, format: DeclaredFormat) {
  const inRoom = (peer: string, audio: DeclaredFormat) =>
    enter(`${peer} ${name}`, { room: name, audio: formatAudioFormat(audio) });
  const [speaker, opus, pcm] = await Promise.all([
    inRoom('speaker', format),
    inRoom('opus', OPUS),
    inRoom('pcm', PCM),
  ]);
  return { speaker, opus, pcm };
}
