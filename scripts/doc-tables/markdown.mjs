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
 * Returns a page with its tables replaced. A table stands in the line after a comment with its name: `<!-- settings -->`.
 * @param {string} page
 * @param {Record<string, string>} tables by name
 * @throws {Error} if the page has not exactly one place for each table
 */
export function withTables(page, tables) {
  return Object.entries(tables).reduce((text, [name, table]) => {
    const [before, rest, ...others] = text.split(`<!-- ${name} -->\n`);
    if (before === undefined || rest === undefined || others.length > 0) {
      throw new Error(`There must be one line "<!-- ${name} -->".`);
    }
    const after = rest.replace(/^(?:\|.*\n)*/, '');
    return `${before}<!-- ${name} -->\n${table}\n${after}`;
  }, page);
}
