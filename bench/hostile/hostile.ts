import { writeFile } from 'node:fs/promises';
import { ATTACKS } from './attacks.ts';
import { attacksHeading, CROWD_CLIENTS } from './attack-row.ts';
import { reportAttack, type Row } from './measure-attack.ts';
import { MOMENTS_HEADING, reportMoment } from './measure-moment.ts';
import { MOMENTS } from './moment.ts';
import { pageOf } from './page.ts';

/** The page that a whole run writes. */
const PAGE = new URL('../../docs/hostile.md', import.meta.url);

export type HostileOptions = {
  /** Duration of each attack, s. */
  seconds: number;
  /** Rows to measure, counted from 1; undefined: all. */
  rows: { first: number; last: number } | undefined;
};

type Table = { heading: string; rows: (() => Promise<Row>)[] };

/**
 * Measures the audio of two peers that talk while attackers, or crowds of ordinary clients, connect. A whole run writes
 * docs/hostile.md.
 */
export async function reportHostile(
  print: (text: string) => void,
  { seconds, rows }: HostileOptions,
  signal: AbortSignal,
): Promise<void> {
  const attacksOf = (clients: number): Table => ({
    heading: attacksHeading(clients, seconds),
    rows: ATTACKS.map((_, index) => () => reportAttack(index, clients, seconds)),
  });
  const moments = MOMENTS.map((_, index) => () => reportMoment(index));
  const tables: Table[] = [
    attacksOf(1),
    attacksOf(CROWD_CLIENTS),
    { heading: MOMENTS_HEADING, rows: moments },
  ];
  const isWanted = (number: number) => !rows || (number >= rows.first && number <= rows.last);
  const measured: Row[] = [];
  const written: string[] = [];
  let number = 0;
  for (const table of tables) {
    const wanted = table.rows.filter((_, index) => isWanted(number + index + 1));
    number += table.rows.length;
    if (wanted.length === 0) continue;
    const texts = [table.heading];
    print(`\n${table.heading}`);
    for (const measure of wanted) {
      signal.throwIfAborted();
      const row = await measure();
      measured.push(row);
      texts.push(row.text);
      print(row.text);
    }
    written.push(texts.join(''));
  }
  const page = pageOf(written, measured, seconds);
  print(`\n${page.verdict}\n`);
  if (!rows) await writeFile(PAGE, page.text);
}
