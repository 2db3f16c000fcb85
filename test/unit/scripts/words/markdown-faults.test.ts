import { expect, test } from 'vitest';
import { markdownFaultsOf } from '../../../../scripts/words/markdown-faults.mjs';

test('refuses openings and persons in paragraphs, lists and tables of a page', () => {
  const text = `# A page
It is short. Whoever reads it
knows that.

- What is late is dropped.
- A client, and his packets

| way | How a client is connected |
|---|---|

*Decision.* Nobody is refused. The rest (Which that is) stays.
`;
  expect(markdownFaultsOf(text)).toEqual([
    { line: 2, sentence: 'Whoever reads it knows that.' },
    { line: 5, sentence: 'What is late is dropped.' },
    { line: 6, sentence: 'A client, and his packets' },
    { line: 8, sentence: 'How a client is connected' },
    { line: 11, sentence: 'Nobody is refused.' },
  ]);
});

test('takes headings, questions, titles, code, conditions and proportions of a page', () => {
  const text = `## What clients send

A page. **What usage must be.** Where it is slow, it is late. Of 40 rooms, two were late. Why is it late?

| [98. What clients send](#98-what-clients-send) | The same. It is HE-AAC. |

\`\`\`sh
# Who am I
What he says
\`\`\`
`;
  expect(markdownFaultsOf(text)).toEqual([]);
});
