import { readFileSync, writeFileSync } from 'node:fs';

/** Draws the plots of README from the tables of docs/benchmarks.md. */

const PROJECT = new URL('../', import.meta.url);

type Bars = {
  title: string;
  unit: string;
  /** Names of the bars of each row, in the order of their values. */
  series: readonly string[];
  /** Bars by series; undefined where a series has none. */
  rows: readonly { name: string; values: readonly (Bar | undefined)[] }[];
};

/** Length of a bar, where a thin line behind it ends, if there is one, and a remark beside it. */
type Bar = { value: number; until?: number; remark?: string };

type Theme = { text: string; faint: string; bars: readonly string[] };

const THEMES = {
  light: { text: '#1f2328', faint: '#d1d9e0', bars: ['#0969da', '#9a6700', '#59636e'] },
  dark: { text: '#f0f6fc', faint: '#3d444d', bars: ['#4493f8', '#d29922', '#9198a1'] },
} as const satisfies Record<string, Theme>;

const WIDTH = 760;
const LEFT = 190;
const RIGHT = 150;
const TOP = 58;
const BAR = 13;
const GAP = 12;

const cellsOf = (line: string) =>
  line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());

/** Returns the cells of the rows of the table whose head begins with `head`. */
function readTable(page: string, head: string): Record<string, string>[] {
  const lines = page.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`| ${head} |`));
  if (start < 0) throw new Error(`docs/benchmarks.md has no table that begins with "${head}"`);
  const names = cellsOf(lines[start]!);
  const end = lines.findIndex((line, i) => i > start && !line.startsWith('|'));
  return lines
    .slice(start + 2, end)
    .map((line) => Object.fromEntries(cellsOf(line).map((cell, i) => [names[i]!, cell])));
}

/** CPU of the gateway beside that of Janus, of the scenarios in which both were measured. */
function readCpu(page: string): Bars {
  const rows = readTable(page, 'rooms × peers × speakers').filter(
    (row) => row['Janus CPU'] !== '–',
  );
  return {
    title: 'CPU, in per cent of a core: less is better',
    unit: '%',
    series: ['Partyline', 'Janus AudioBridge'],
    rows: rows.map((row) => {
      const [rooms, peers, speakers] = row['rooms × peers × speakers']!.split(' × ');
      const delivered = row['Janus delivered']!;
      const janus = { value: parseFloat(row['Janus CPU']!) };
      return {
        name: `${rooms} × ${peers} peers, ${speakers} speak`,
        values: [
          { value: parseFloat(row['Node CPU']!) + parseFloat(row['media worker CPU']!) },
          delivered === '100 %' ? janus : { ...janus, remark: `delivers ${delivered}` },
        ],
      };
    }),
  };
}

/** Latency from mouth to ear, beside that of Janus at two settings: p50 as a bar, p99 as a line behind it. */
function readLatency(page: string): Bars {
  const rows = readTable(page, 'mouth to ear');
  const rivals = Object.keys(rows[0] ?? {}).filter((column) => column.startsWith('Janus'));
  return {
    title: 'Mouth to ear, ms (bar: p50, line: p99): less is better',
    unit: 'ms',
    series: ['Partyline', ...rivals],
    rows: rows.map((row) => ({
      name: `${row['mouth to ear']}, ${row['rooms behind (5 peers, 2 speak)'] === '0' ? 'quiet' : 'busy'}`,
      values: ['p50 / p99', ...rivals].map((column) => readPercentiles(row[column]!)),
    })),
  };
}

/** Reads `18.2 / 35.8 ms`, wherever it is in a cell; undefined if it is not there. */
function readPercentiles(cell: string): Bar | undefined {
  const [, p50, p99] = /([\d.]+) \/ ([\d.]+) ms/.exec(cell) ?? [];
  if (p50 === undefined || p99 === undefined) return undefined;
  return { value: Number(p50), until: Number(p99), remark: `p99 ${p99}` };
}

/** Draws horizontal bars as SVG. */
function drawBars({ title, unit, series, rows }: Bars, theme: keyof typeof THEMES): string {
  const { text, faint, bars } = THEMES[theme];
  const longest = Math.max(
    ...rows.flatMap(({ values }) => values.flatMap((bar) => (bar ? (bar.until ?? bar.value) : []))),
  );
  const scale = (WIDTH - LEFT - RIGHT) / longest;
  const rowHeight = series.length * BAR + GAP;
  const height = TOP + rows.length * rowHeight + 8;
  const shapes = rows.flatMap(({ name, values }, i) => {
    const top = TOP + i * rowHeight;
    const middle = top + (series.length * BAR) / 2 + 4;
    const label = `<text x="${LEFT - 10}" y="${middle}" text-anchor="end">${name}</text>`;
    return [label, ...values.flatMap((bar, j) => (bar ? drawBar(bar, j, top + j * BAR) : []))];
  });
  function drawBar({ value, until, remark }: Bar, j: number, top: number): string[] {
    const end = LEFT + Math.max(value, until ?? 0) * scale;
    const note = [`${value.toFixed(1)} ${unit}`, ...(remark ? [remark] : [])].join(', ');
    const line = `<line x1="${LEFT}" x2="${round(end)}" y1="${top + 6}" y2="${top + 6}" stroke="${bars[j]}"/>`;
    return [
      ...(until === undefined ? [] : [line]),
      `<rect x="${LEFT}" y="${top}" width="${round(value * scale)}" height="${BAR - 2}" fill="${bars[j]}"/>`,
      `<text x="${round(end + 6)}" y="${top + 10}" font-size="11">${note}</text>`,
    ];
  }
  const legend = series.flatMap((name, j) => [
    `<rect x="${LEFT + j * 150}" y="34" width="10" height="10" fill="${bars[j]}"/>`,
    `<text x="${LEFT + j * 150 + 15}" y="43" font-size="12">${name}</text>`,
  ]);
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12" fill="${text}">`,
    `<title>${title}</title>`,
    `<text x="${LEFT}" y="20" font-size="14" font-weight="bold">${title}</text>`,
    ...legend,
    `<line x1="${LEFT}" x2="${LEFT}" y1="${TOP - 4}" y2="${height - 8}" stroke="${faint}"/>`,
    ...shapes,
    '</svg>',
  ].join('\n')}\n`;
}

const round = (value: number) => Math.round(value * 10) / 10;

/** Returns the plots by the names of their files in docs/plots. */
export function drawPlots(page: string): Map<string, string> {
  const plots = { cpu: readCpu(page), latency: readLatency(page) };
  const themes = Object.keys(THEMES) as (keyof typeof THEMES)[];
  return new Map(
    Object.entries(plots).flatMap(([name, bars]) =>
      themes.map((theme) => [`${name}-${theme}.svg`, drawBars(bars, theme)] as const),
    ),
  );
}

/** Writes the plots of README anew. */
export function writePlots(): void {
  const page = readFileSync(new URL('docs/benchmarks.md', PROJECT), 'utf8');
  for (const [name, svg] of drawPlots(page)) {
    writeFileSync(new URL(`docs/plots/${name}`, PROJECT), svg);
  }
}
