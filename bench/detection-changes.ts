import { type Codecs, loadCodecs } from '../src/audio/codecs.ts';
import {
  alarmsIn,
  formatChanges,
  type HeardChange,
  hearFormatChange,
  RANDOM_BYTES,
  steadyStreams,
} from '../test/support/changing-streams.ts';
import { findRateChange, NETWORKS, rateChanges } from '../test/support/format-changes.ts';
import { quantile } from './percentiles.ts';

/** Settings of the Opus encoder, on which the detection does not depend. */
const ENCODING = { bitrateBps: 48_000, complexity: 0 };
/** Longest time for which a wrong reading may be heard after a change. */
const MOST_WRONG_MS = 100;
/** Share of the changes of rate that are measured, each rate, length and seed in turn. */
const ONE_IN = 97;
/** Time within which a change of rate is to be detected, ms of sound; a message more. */
const IN_TIME_MS = 1010;

/** Measures streams whose format or rate changes in the middle, and streams that never change. */
export async function reportChanges(seeds: number, signal: AbortSignal): Promise<string> {
  const codecs = await loadCodecs(ENCODING);
  return [
    await reportFormatChanges(seeds, codecs, signal),
    await reportRateChanges(seeds, codecs, signal),
    await reportAlarms(seeds, signal),
  ].join('\n\n');
}

async function reportFormatChanges(seeds: number, codecs: Codecs, signal: AbortSignal) {
  const rows = new Map<string, (HeardChange & { isRight: boolean })[]>();
  const notRight: string[] = [];
  for (const change of formatChanges(seeds)) {
    signal.throwIfAborted();
    const { messageMs, from, to, seed } = change;
    const heard = await hearFormatChange(change, codecs);
    const { told, wrongMs } = heard;
    const isRight = told === to;
    const kind = from === RANDOM_BYTES ? 'random bytes, then a format' : 'a format, then another';
    const row = `${kind}, ${messageMs} ms`;
    rows.set(row, [...(rows.get(row) ?? []), { ...heard, isRight }]);
    if (isRight && wrongMs <= MOST_WRONG_MS) continue;
    notRight.push(
      `- ${from} → ${to}, ${messageMs} ms, seed ${seed}: ${told}, ${wrongMs} ms heard wrongly`,
    );
  }
  return [
    '| change of format, messages of | changes | detected | after p50 / max | wrong for more than 100 ms | longest |',
    '| --- | --- | --- | --- | --- | --- |',
    ...[...rows].map(([row, changes]) => {
      const right = changes.filter(({ isRight }) => isRight);
      const foundMs = right.map((change) => change.foundMs).toSorted((a, b) => a - b);
      const [middle, last] = [0.5, 1].map((share) => quantile(foundMs, share).toFixed(0));
      const long = changes.filter(({ wrongMs }) => wrongMs > MOST_WRONG_MS).length;
      const longest = Math.max(...changes.map(({ wrongMs }) => wrongMs));
      return `| ${row} | ${changes.length} | ${right.length} | ${middle} / ${last} ms | ${long} | ${longest} ms |`;
    }),
    ...(notRight.length > 0 ? ['', ...notRight] : []),
  ].join('\n');
}

async function reportRateChanges(seeds: number, codecs: Codecs, signal: AbortSignal) {
  const rows: string[] = [];
  for (const network of NETWORKS) {
    const changes = [...rateChanges(seeds)].filter((change) => change.network === network);
    const foundMs: number[] = [];
    for (const change of changes.filter((_, i) => i % ONE_IN === 0)) {
      signal.throwIfAborted();
      foundMs.push(await findRateChange(change, codecs));
    }
    const found = foundMs.filter(Number.isFinite).toSorted((a, b) => a - b);
    const never = foundMs.length - found.length;
    const inTime = found.filter((ms) => ms < IN_TIME_MS).length;
    const [middle, longest] = [0.5, 1].map((share) => quantile(found, share).toFixed(0));
    rows.push(
      `| ${network} | ${foundMs.length} | ${inTime} | ${middle} / ${longest} ms | ${never} |`,
    );
  }
  return [
    '| change of rate, network | changes | detected within 1 s | p50 / max | never detected |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n');
}

async function reportAlarms(seeds: number, signal: AbortSignal) {
  let [messages, alarms, held, mistaken] = [0, 0, 0, 0];
  for (const stream of steadyStreams(seeds)) {
    signal.throwIfAborted();
    const counts = await alarmsIn(stream);
    messages += counts.messages;
    alarms += counts.alarms;
    held += counts.held;
    mistaken += counts.mistaken;
  }
  const perThousand = ((1000 * held) / messages).toFixed(2);
  return [
    '| streams that never change, messages | alarms | held wrongly | in a thousand | taken for another format |',
    '| --- | --- | --- | --- | --- |',
    `| ${messages} | ${alarms} | ${held} | ${perThousand} | ${mistaken} |`,
  ].join('\n');
}
