import { formatAudioFormat } from '../src/audio/format.ts';
import { FormatDetector } from '../src/audio/ingest/detection/detector.ts';
import { arrivalsOf, type CorpusCase, CONTENTS, corpusCases } from '../test/support/corpus.ts';
import { quantile } from './percentiles.ts';

type Outcome = {
  corpusCase: CorpusCase;
  was: string;
  said: string;
  /** From the first message to the one that told. */
  heldMs: number;
};

const NEVER = 'nothing';

/**
 * Runs the detector over its corpus: all formats × contents × message lengths × seeds.
 * @returns a table of what it got right and how long it took, and all that it got wrong
 */
export async function reportDetection(seeds: number, signal: AbortSignal): Promise<string> {
  const outcomes: Outcome[] = [];
  for (const corpusCase of corpusCases(seeds)) {
    // The corpus is made without ever waiting for anything, so that nobody else would get to abort.
    if (outcomes.length % 100 === 0) await new Promise(setImmediate);
    signal.throwIfAborted();
    outcomes.push(await detect(corpusCase));
  }
  const contents = CONTENTS.map((content) =>
    line(
      content,
      outcomes.filter(({ corpusCase }) => corpusCase.content === content),
    ),
  );
  return `
| format detection | streams | right | held p50 / p90 / max |
| --- | --- | --- | --- |
${[...contents, line('all', outcomes)].join('\n')}

${reportWrong(outcomes)}
`;
}

async function detect(corpusCase: CorpusCase): Promise<Outcome> {
  const was = formatAudioFormat(corpusCase.format);
  const arrivals = await arrivalsOf(corpusCase);
  const firstMs = arrivals[0]!.atMs;
  const detector = new FormatDetector();
  for (const { message, atMs } of arrivals) {
    const detection = detector.push(message, atMs);
    if (!detection) continue;
    const said = formatAudioFormat(detection.format);
    return { corpusCase, was, said, heldMs: atMs - firstMs };
  }
  return { corpusCase, was, said: NEVER, heldMs: arrivals.at(-1)!.atMs - firstMs };
}

function line(name: string, outcomes: Outcome[]): string {
  const right = outcomes.filter(({ said, was }) => said === was).length;
  const held = outcomes.map(({ heldMs }) => heldMs).toSorted((a, b) => a - b);
  const heldFor = (share: number) => quantile(held, share).toFixed(0);
  const percent = ((100 * right) / outcomes.length).toFixed(2);
  return `| ${name} | ${outcomes.length} | ${percent} % | ${heldFor(0.5)} / ${heldFor(0.9)} / ${heldFor(1)} ms |`;
}

/** The cells of the confusion matrix beside its diagonal, the fullest first. */
function reportWrong(outcomes: Outcome[]): string {
  const counts = new Map<string, number>();
  for (const { corpusCase, said, was } of outcomes) {
    if (said === was) continue;
    const cell = `${said} → ${was} (${corpusCase.content})`;
    counts.set(cell, (counts.get(cell) ?? 0) + 1);
  }
  const cells = [...counts].toSorted(([, a], [, b]) => b - a);
  return [
    `Told wrongly (said → was): ${cells.length === 0 ? 'none' : ''}\n`,
    ...cells.map(([cell, count]) => `- ${cell} × ${count}`),
  ].join('\n');
}
