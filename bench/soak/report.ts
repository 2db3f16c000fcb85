import { staysBecause } from './redis-keys.ts';
import type { NodeSample } from './sampler.ts';
import type { SoakResult } from './soak.ts';

/** Returns the result as Markdown. */
export function reportSoak(result: SoakResult): string {
  const { options, claims, faults, sampler, tally } = result;
  const { minutes, peers, nodes, seed } = options;
  const held = claims.filter(({ isOk }) => isOk).length;
  return [
    `\`npm run soak -- --minutes ${minutes} --peers ${peers} --nodes ${nodes} --seed ${seed}\`: ${held} of ${claims.length} claims hold.`,
    table(
      ['claim', 'expected', 'found', 'ok'],
      claims.map(({ name, expected, found, isOk }) => [
        name,
        expected,
        found,
        isOk ? 'ok' : '**no**',
      ]),
    ),
    '### Memory and descriptors, every 10 s: least / median / most',
    table(
      [
        'node',
        'resident MB',
        'heap MB',
        'media workers MB',
        'descriptors',
        'of media workers',
        'sessions',
        'rooms',
      ],
      rowsOf(sampler.nodeSamples, nodes),
    ),
    `Redis: ${spread(sampler.redisSamples.map(({ usedBytes }) => usedBytes / 1e6))} MB. Samples missing because Redis did not answer: ${sampler.missed}.`,
    '### Redis keys',
    table(
      ['kind', 'at the beginning', 'under load', 'at the end', 'why they stay'],
      keysOf(result),
    ),
    '### Faults',
    table(
      ['at s', 'took s', 'fault', 'to'],
      faults.map(({ startedMs, tookMs, kind, what }) => [
        (startedMs / 1000).toFixed(1),
        (tookMs / 1000).toFixed(1),
        kind,
        what,
      ]),
    ),
    '### What clients saw',
    table(
      ['what', 'times'],
      tally.entries().map(([what, count]) => [what, String(count)]),
    ),
  ].join('\n\n');
}

function rowsOf(samples: NodeSample[], nodes: number): string[][] {
  const figures = [
    'residentMb',
    'heapMb',
    'mediaWorkersMb',
    'descriptors',
    'mediaWorkerDescriptors',
    'sessions',
    'rooms',
  ] as const;
  return Array.from({ length: nodes }, (_, node) => {
    const of = samples.filter(({ index }) => index === node);
    return [String(node), ...figures.map((figure) => spread(of.map((sample) => sample[figure])))];
  });
}

function keysOf({ sampler, redisAtStart, redisAtEnd }: SoakResult): string[][] {
  const samples = [redisAtStart, sampler.redisSamples.at(-1), redisAtEnd];
  const counts = samples.map((sample) => sample?.counts ?? {});
  const kinds = new Set(counts.flatMap((of) => Object.keys(of)));
  return [...kinds].map((kind) => [
    kind,
    ...counts.map((of) => String(of[kind] ?? 0)),
    staysBecause(kind) ?? 'go with the peers',
  ]);
}

function spread(values: number[]): string {
  const sorted = values.toSorted((one, other) => one - other);
  const [least, median, most] = [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)];
  return [least, median, most].map((value) => (value ?? NaN).toFixed(0)).join(' / ');
}

const table = (head: string[], rows: string[][]) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
