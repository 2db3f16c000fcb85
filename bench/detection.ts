import { formatAudioFormat } from '../src/audio/format.ts';
import { FormatDetector } from '../src/audio/ingest/detection/detector.ts';
import type { TimedMessage } from '../src/audio/ingest/detection/pace.ts';
import { arrivalsOf, corpusCases } from '../test/support/corpus.ts';
import { arrivalsOfUnknown, UNKNOWN_KINDS, unknownCases } from '../test/support/unknown-corpus.ts';
import { quantile } from './percentiles.ts';

type Outcome = {
  /** The row of the table that it belongs to. */
  row: string;
  was: string;
  said: string;
  /** From the first message to the one that told. */
  heldMs: number;
};

/** Nothing was said, or of digital silence only a guess that is looked at again with the first sound. */
const NEVER = 'nothing';
const UNKNOWN = 'opaque';

/**
 * Runs the detector over its corpora: all formats × contents × message lengths × seeds, and what is none of them.
 * @returns a table of what it got right and how long it took, and all that it got wrong
 */
export async function reportDetection(seeds: number, signal: AbortSignal): Promise<string> {
  const known: Outcome[] = [];
  for (const corpusCase of corpusCases(seeds)) {
    await breathe(known.length, signal);
    const was = formatAudioFormat(corpusCase.format);
    known.push(detect(corpusCase.content, was, await arrivalsOf(corpusCase)));
  }
  const others: Outcome[] = [];
  for (const unknownCase of unknownCases(seeds)) {
    await breathe(others.length, signal);
    const arrivals = await arrivalsOfUnknown(unknownCase);
    const { kind } = unknownCase;
    if (arrivals) others.push(detect(kind, UNKNOWN_KINDS.get(kind)![0], arrivals));
  }
  return `
| format detection | streams | right | unknown | undecided | wrong | held p50 / p90 / max |
| --- | --- | --- | --- | --- | --- | --- |
${[...rowsOf(known), line('all', known), ...rowsOf(others)].join('\n')}

${reportWrong([...known, ...others])}
`;
}

/** The corpora are made without ever waiting for anything, so that nobody else would get to abort. */
async function breathe(cases: number, signal: AbortSignal): Promise<void> {
  if (cases % 100 === 0) await new Promise(setImmediate);
  signal.throwIfAborted();
}

function detect(row: string, was: string, arrivals: TimedMessage[]): Outcome {
  const firstMs = arrivals[0]!.atMs;
  const detector = new FormatDetector();
  for (const { message, atMs } of arrivals) {
    const detection = detector.push(message, atMs);
    if (!detection) continue;
    const isGuess = detector.isSilentSoFar && was === UNKNOWN;
    const said = isGuess ? NEVER : formatAudioFormat(detection.format);
    return { row, was, said, heldMs: atMs - firstMs };
  }
  return { row, was, said: NEVER, heldMs: arrivals.at(-1)!.atMs - firstMs };
}

const rowsOf = (outcomes: Outcome[]): string[] =>
  [...Map.groupBy(outcomes, ({ row }) => row)].map(([name, ofRow]) => line(name, ofRow));

function line(name: string, outcomes: Outcome[]): string {
  const count = (is: (outcome: Outcome) => boolean) => outcomes.filter(is).length;
  const right = count(({ said, was }) => said === was);
  const unknown = count(({ said, was }) => said === UNKNOWN && said !== was);
  const undecided = count(({ said }) => said === NEVER);
  const wrong = outcomes.length - right - unknown - undecided;
  const held = outcomes.map(({ heldMs }) => heldMs).toSorted((a, b) => a - b);
  const heldFor = (share: number) => quantile(held, share).toFixed(0);
  const percent = (part: number) =>
    part === 0 ? '0' : `${((100 * part) / outcomes.length).toFixed(2)} %`;
  const shares = [right, unknown, undecided, wrong].map(percent).join(' | ');
  return `| ${name} | ${outcomes.length} | ${shares} | ${heldFor(0.5)} / ${heldFor(0.9)} / ${heldFor(1)} ms |`;
}

/** The cells of the confusion matrix beside its diagonal, the fullest first. */
function reportWrong(outcomes: Outcome[]): string {
  const counts = new Map<string, number>();
  for (const { row, said, was } of outcomes) {
    if (said === was || said === NEVER) continue;
    const cell = `${said} → ${row === was ? was : `${was} (${row})`}`;
    counts.set(cell, (counts.get(cell) ?? 0) + 1);
  }
  const cells = [...counts].toSorted(([, a], [, b]) => b - a);
  return [
    `Told otherwise (said → was): ${cells.length === 0 ? 'none' : ''}\n`,
    ...cells.map(([cell, count]) => `- ${cell} × ${count}`),
  ].join('\n');
}
