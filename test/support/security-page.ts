import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Figures of SECURITY.md. */

export const SECURITY_PAGE = readFileSync(join(import.meta.dirname, '../../SECURITY.md'), 'utf8');

const MEMORY_ROWS = (/^## Memory of Redis$(.*?)^## /ms.exec(SECURITY_PAGE)?.[1] ?? '')
  .split('\n')
  .filter((line) => line.startsWith('| ') && /\d/.test(line))
  .map((line) => line.slice(2).split(' | '));

const numberOf = (cell: string) => Number(cell.match(/^[\d,]+/)?.[0].replaceAll(',', ''));

/** Returns a row of "Memory of Redis": length of the text, bytes in Redis, number, and bytes in all. @param data beginning of its first cell */
export function memoryRow(data: string) {
  const [, text = '', inRedis = '', number = '', all = ''] =
    MEMORY_ROWS.find(([name]) => name!.startsWith(data)) ?? [];
  const [, value, unit] = /^([\d.]+) (GB|MB)/.exec(all) ?? [];
  return {
    text: numberOf(text),
    inRedis: numberOf(inRedis),
    number: numberOf(number),
    words: number,
    all: Number(value) * (unit === 'GB' ? 1e9 : 1e6),
    isOfOneProcess: all.includes(' for each process'),
  };
}
