import { PERSON } from './comment-faults.mjs';

/** Rules for pages in Markdown (CONTRIBUTING.md, "Words"): those of comments that hold for any prose. */

/**
 * Sentences that begin with a pronoun or a question in place of a noun. Unlike in a comment, "Where" may begin a condition,
 * and "Of" a proportion.
 */
const OPENING =
  /^(?:Who(?:ever|se|m)?|What(?:ever)?|Whether|Which|How|Why|Our|Those (?:of|who)|(?:Some|No|Any|Every)body|Someone)\b/;
/** Titles of decisions in links to them, which are as the headings. */
const TITLE_OF_DECISION = /\[\d+\. [^\]]*\]\(\S*?\)/g;
/** Emphasised sentences, which are headings within a paragraph. */
const HEADING_IN_PARAGRAPH = /(\*{1,2})(?=[A-Z])[^*]*[.:?]\1/g;

/**
 * Returns the paragraphs, list items and table cells of a page, without headings and code.
 * @param {string} text of a page
 */
function paragraphsOf(text) {
  /** @type {{ line: number, text: string }[]} */
  const paragraphs = [];
  let [isCode, isOpen] = [false, false];
  for (const [i, line] of text.split('\n').entries()) {
    const isFence = /^\s*(?:```|~~~)/.test(line);
    if (isFence) isCode = !isCode;
    if (isFence || isCode || /^#|^\s*$/.test(line)) {
      isOpen = false;
    } else if (/^\s*\|/.test(line)) {
      for (const cell of line.split(/(?<!\\)\|/)) paragraphs.push({ line: i + 1, text: cell });
      isOpen = false;
    } else {
      if (!isOpen || /^\s*(?:[-*]|\d+\.)\s/.test(line)) paragraphs.push({ line: i + 1, text: '' });
      isOpen = true;
      const last = paragraphs.at(-1);
      if (last) last.text += ` ${line.replace(/^\s*(?:[-*]|\d+\.)\s+/, '').trim()}`;
    }
  }
  return paragraphs;
}

/**
 * Finds the sentences of a page that break the rules. Headings and questions may begin with any word.
 * @param {string} text of a page
 */
export function markdownFaultsOf(text) {
  return paragraphsOf(text).flatMap(({ line, text: paragraph }) =>
    paragraph
      .replaceAll(TITLE_OF_DECISION, '')
      .replaceAll(HEADING_IN_PARAGRAPH, '\n')
      .replaceAll(/`[^`]*`/g, '`')
      .split(/\n|(?<=[.:;?!])\)?\s+(?=[A-Z`*(])/)
      .map((sentence) => ({ line, sentence: sentence.replace(/^[\s*(]+/, '').trim() }))
      .filter(
        ({ sentence }) =>
          PERSON.test(sentence) || (OPENING.test(sentence) && !sentence.endsWith('?')),
      ),
  );
}
