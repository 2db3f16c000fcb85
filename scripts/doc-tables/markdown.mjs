/** Tables of Markdown, and their places in pages. */

/**
 * Returns a table of Markdown.
 * @param {string[]} head titles of the columns
 * @param {string[][]} rows cells of each row
 */
export const tableOf = (head, rows) =>
  [head, head.map(() => '---'), ...rows]
    .map((cells, i) => (i === 1 ? `|${cells.join('|')}|` : `| ${cells.join(' | ')} |`))
    .join('\n');

/** @param {string} text */
export const code = (text) => `\`${text}\``;

/**
 * Returns a page with its tables replaced. A table stands after a line with its name, `<!-- settings -->`, and ends with its last
 * row, or, if there is one, with a line `<!-- /settings -->`.
 * @param {string} page
 * @param {Record<string, string>} tables by name
 * @throws {Error} if the page has not exactly one place for each table
 */
export function withTables(page, tables) {
  return Object.entries(tables).reduce((text, [name, table]) => {
    const begin = `<!-- ${name} -->\n`;
    const [before, rest, ...others] = text.split(begin);
    if (before === undefined || rest === undefined || others.length > 0) {
      throw new Error(`There must be one line "<!-- ${name} -->".`);
    }
    const end = rest.indexOf(`\n<!-- /${name} -->\n`);
    const after = end < 0 ? rest.replace(/^(?:\|.*\n)*/, '') : rest.slice(end);
    return `${before}${begin}${table}\n${after}`;
  }, page);
}
