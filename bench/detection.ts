import { type Codecs, loadCodecs } from '../src/audio/codecs.ts';
import { formatAudioFormat } from '../src/audio/format.ts';
import { FormatDetector } from '../src/audio/ingest/detection/detector.ts';
import type { TimedMessage } from '../src/audio/ingest/detection/pace.ts';
import { arrivalsOf, corpusCases } from '../test/support/corpus.ts';
import { firstSoundCases, hearFirstSound, hearWrongly } from '../test/support/first-sound.ts';
import { arrivalsOfUnknown, UNKNOWN_KINDS, unknownCases } from '../test/support/unknown-corpus.ts';
import { reportChanges } from './detection-changes.ts';
import { quantile } from './percentiles.ts';

type Outcome = {
  /** Row of the table to which the case belongs. */
  row: string;
  was: string;
  said: string;
  /** Time from the first message to the one that led to the result, ms. */
  heldMs: number;
  /** Duration of audible sound that is read as a wrong format, ms. */
  wrongMs: number;
};

/** Settings of the Opus encoder, on which the detection does not depend. */
const FIRST_SOUND_ENCODING = { bitrateBps: 48_000, complexity: 0 };
/**
 * Outcome of a stream in which nothing was detected, or only a guess for digital silence, which is checked at
 * the first audio.
 */
const NEVER = 'nothing';
const UNKNOWN = 'opaque';

/**
 * Runs the detector over its corpora: all formats × contents × message lengths × seeds, and streams of no
 * known format.
 * @returns a table of correct results and their times, and all wrong results
 */
export async function reportDetection(seeds: number, signal: AbortSignal): Promise<string> {
  const codecs = await loadCodecs(FIRST_SOUND_ENCODING);
  const known: Outcome[] = [];
  for (const corpusCase of corpusCases(seeds, true)) {
    await breathe(known.length, signal);
    const was = formatAudioFormat(corpusCase.format);
    known.push(await hear(corpusCase.content, was, await arrivalsOf(corpusCase), codecs));
  }
  const others: Outcome[] = [];
  for (const unknownCase of unknownCases(seeds)) {
    await breathe(others.length, signal);
    const arrivals = await arrivalsOfUnknown(unknownCase);
    const { kind } = unknownCase;
    if (arrivals) others.push(await hear(kind, UNKNOWN_KINDS.get(kind)![0], arrivals, codecs));
  }
  return `
| format detection | streams | right | unknown | undecided | wrong | wrong and audible, longest | held p50 / p90 / max |
| --- | --- | --- | --- | --- | --- | --- | --- |
${[...rowsOf(known), line('all', known), ...rowsOf(others)].join('\n')}

${reportWrong([...known, ...others])}

${await reportFirstSounds(seeds, codecs, signal)}

${await reportChanges(seeds, signal)}
`;
}

/**
 * Plays silence and then audio to inputs without a declared format, and reports the detected formats and the
 * audio that was decoded wrongly.
 */
async function reportFirstSounds(
  seeds: number,
  codecs: Codecs,
  signal: AbortSignal,
): Promise<string> {
  const rows = new Map<
    string,
    { streams: number; right: number; audible: number; mostMs: number }
  >();
  let cases = 0;
  for (const firstSound of firstSoundCases(seeds)) {
    await breathe(cases, signal);
    cases += 1;
    const { told, wrongMs } = await hearFirstSound(firstSound, codecs);
    const name = `${firstSound.silence}, then ${firstSound.content}`;
    const row = rows.get(name) ?? { streams: 0, right: 0, audible: 0, mostMs: 0 };
    rows.set(name, {
      streams: row.streams + 1,
      right: row.right + (told.at(-1) === formatAudioFormat(firstSound.format) ? 1 : 0),
      audible: row.audible + (wrongMs > 0 ? 1 : 0),
      mostMs: Math.max(row.mostMs, wrongMs),
    });
  }
  return [
    '| silence, then sound | streams | right | heard wrongly | longest |',
    '| --- | --- | --- | --- | --- |',
    ...[...rows].map(
      ([name, { streams, right, audible, mostMs }]) =>
        `| ${name} | ${streams} | ${((100 * right) / streams).toFixed(2)} % | ${audible} | ${mostMs} ms |`,
    ),
  ].join('\n');
}

/** Lets the event loop run, because the corpora are made without a pause and could not be aborted otherwise. */
async function breathe(cases: number, signal: AbortSignal): Promise<void> {
  if (cases % 100 === 0) await new Promise(setImmediate);
  signal.throwIfAborted();
}

const isWrong = ({ said, was }: Pick<Outcome, 'said' | 'was'>): boolean =>
  said !== was && said !== UNKNOWN && said !== NEVER;

/** Detects the format of a stream, and plays it if that is wrong. */
async function hear(
  row: string,
  was: string,
  arrivals: TimedMessage[],
  codecs: Codecs,
): Promise<Outcome> {
  const detected = { row, was, ...detect(was, arrivals) };
  const wrongMs = isWrong(detected) ? (await hearWrongly(arrivals, was, codecs)).wrongMs : 0;
  return { ...detected, wrongMs };
}

function detect(was: string, arrivals: TimedMessage[]): Pick<Outcome, 'said' | 'heldMs'> {
  const firstMs = arrivals[0]!.atMs;
  const detector = new FormatDetector();
  for (const { message, atMs } of arrivals) {
    const detection = detector.push(message, atMs);
    if (!detection) continue;
    const isGuess = detector.isSilentSoFar && was === UNKNOWN;
    const said = isGuess ? NEVER : formatAudioFormat(detection.format);
    return { said, heldMs: atMs - firstMs };
  }
  return { said: NEVER, heldMs: arrivals.at(-1)!.atMs - firstMs };
}

const rowsOf = (outcomes: Outcome[]): string[] =>
  [...Map.groupBy(outcomes, ({ row }) => row)].map(([name, ofRow]) => line(name, ofRow));

function line(name: string, outcomes: Outcome[]): string {
  const count = (is: (outcome: Outcome) => boolean) => outcomes.filter(is).length;
  const right = count(({ said, was }) => said === was);
  const unknown = count(({ said, was }) => said === UNKNOWN && said !== was);
  const undecided = count(({ said }) => said === NEVER);
  const wrong = count(isWrong);
  const audible = count(({ wrongMs }) => wrongMs > 0);
  const longestMs = Math.max(...outcomes.map(({ wrongMs }) => wrongMs));
  const held = outcomes.map(({ heldMs }) => heldMs).toSorted((a, b) => a - b);
  const heldFor = (share: number) => quantile(held, share).toFixed(0);
  const percent = (part: number) =>
    part === 0 ? '0' : `${((100 * part) / outcomes.length).toFixed(2)} %`;
  const shares = [right, unknown, undecided, wrong].map(percent).join(' | ');
  return `| ${name} | ${outcomes.length} | ${shares} | ${audible}, ${longestMs} ms | ${heldFor(0.5)} / ${heldFor(0.9)} / ${heldFor(1)} ms |`;
}

/** Lists the cells of the confusion matrix off its diagonal, the largest first. */
function reportWrong(outcomes: Outcome[]): string {
  const counts = new Map<string, number>();
  for (const { row, said, was } of outcomes) {
    if (said === was || said === NEVER) continue;
    const cell = `${said} → ${row === was ? was : `${was} (${row})`}`;
    counts.set(cell, (counts.get(cell) ?? 0) + 1);
  }
  const cells = [...counts].toSorted(([, a], [, b]) => b - a);
  return [
    `Detected wrongly (detected → sent): ${cells.length === 0 ? 'none' : ''}\n`,
    ...cells.map(([cell, count]) => `- ${cell} × ${count}`),
  ].join('\n');
}
