import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const PROJECT = join(import.meta.dirname, '../../../..');
const read = (file: string) => readFileSync(join(PROJECT, file), 'utf8');

test('the page has ten lines, which docs/connect-page.md shows', () => {
  const page = read('examples/page/index.html');
  expect(page.trimEnd().split('\n')).toHaveLength(10);
  expect(read('docs/connect-page.md')).toContain(`\`\`\`html\n${page}\`\`\``);
});
