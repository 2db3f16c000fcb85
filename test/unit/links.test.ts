import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';

const PROJECT = join(import.meta.dirname, '../..');
const pages = globSync(['*.md', '{docs,examples,packages,test}/**/*.md'], {
  cwd: PROJECT,
  exclude: ['**/node_modules/**'],
});

/** Text outside of code, where a bracket is no link. */
const proseOf = (page: string) =>
  readFileSync(join(PROJECT, page), 'utf8')
    .replaceAll(/^```.*?^```/gms, '')
    .replaceAll(/`[^`\n]*`/g, (code) => code.replaceAll(/[[\]()]/g, ''));

/** Anchors of a page, as GitHub makes them of its headings. */
function anchorsOf(page: string): string[] {
  const text = readFileSync(join(PROJECT, page), 'utf8').replaceAll(/^```.*?^```/gms, '');
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test.each(pages)('the links of %s lead to files, and to headings in them', (page) => {
  const links = [...proseOf(page).matchAll(/\]\(([^()\s]+(?:\([^()\s]*\))?)\)/g)].map(
    ([, link]) => link!,
  );
  const own = links.filter((link) => !/^[a-z]+:/.test(link));
  const broken = own.filter((link) => {
    const [path = '', anchor] = link.split('#');
    const file = path === '' ? page : relative(PROJECT, join(PROJECT, dirname(page), path));
    if (!existsSync(join(PROJECT, file))) return true;
    return anchor !== undefined && !anchorsOf(file).includes(anchor);
  });
  expect(broken).toEqual([]);
});
