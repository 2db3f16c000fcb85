import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const OPERATIONS = join(import.meta.dirname, '../../docs/operations');
const FENCED = /^```sh\n(.*?)^```$/gms;
const SETTINGS = /^```ini\n(.*?)^```$/gms;
/** Programs that the pages call in the middle of a sentence, with words behind them. */
const INLINE =
  /`((?:[A-Z_]+=\S+ )*(?:npm run|node|docker|kubectl|systemctl|iptables|scripts\/\S+) [^`]+)`/g;
/** An explanation at the end of a line. */
const REMARK = / {2,}#.*$/;

const readPage = (page: string) => readFileSync(join(OPERATIONS, page), 'utf8');

/**
 * Commands of the `sh` blocks of a page of docs/operations, in order, without what explains them.
 *
 * @param section the heading of the part of the page that is meant; the whole page without it
 */
export function fencedCommands(page: string, section?: string): string[] {
  const text = readPage(page);
  const part = section ? text.split(/^## /m).find((each) => each.startsWith(`${section}\n`)) : text;
  if (part === undefined) throw new Error(`${page} has no section ${section}`);
  const blocks = [...part.matchAll(FENCED)].map(([, block = '']) => block);
  return blocks.flatMap((block) =>
    block
      .split('\n')
      .map((line) => line.replace(REMARK, ''))
      .filter(Boolean),
  );
}

/** Settings of the `ini` blocks of a page, as name and value. */
export function settingsOf(page: string): Map<string, string> {
  const blocks = [...readPage(page).matchAll(SETTINGS)].map(([, block = '']) => block);
  const lines = blocks.flatMap((block) => block.split('\n').filter(Boolean));
  return new Map(lines.map((line) => line.split('=') as [string, string]));
}

/** Commands of a page, those within its sentences too, each once. */
export function commandsOf(page: string): string[] {
  const text = readPage(page).replaceAll(FENCED, '');
  const inline = [...text.matchAll(INLINE)].map(([, command = '']) => command);
  return [...new Set([...fencedCommands(page), ...inline])];
}

/** Requests that a page names, each once, as `['GET', '/api/admin/nodes']`. */
export function requestsOf(page: string): [method: string, path: string][] {
  const found = readPage(page).matchAll(/`((?:GET|POST) \/[^`]+)`/g);
  const requests = new Set([...found].map(([, request = '']) => request));
  return [...requests].map((request) => request.split(' ') as [string, string]);
}
