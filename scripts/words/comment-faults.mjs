/** Rules for comments (CONTRIBUTING.md, "Words"), as far as a program can hold them. */

/** Sentences that begin with a pronoun or a question in place of a noun. */
const OPENING =
  /^(?:Who(?:ever|se|m)?|Of|What(?:ever)?|Whether|Which|Where|How|Why|Our|Those (?:of|who)|(?:Some|No|Any|Every)body|Someone)\b/;
/** First sentences of doc comments whose noun is elsewhere. */
const POINTING_OPENING = /^(?:The same|Its?|They|Their)\b/;
/** Words that stand for a number which the reader is left to find. */
const UNNAMED_NUMBER = /\bso (?:many|much|long|often|few)\b(?! (?:that|as)\b)|\bthis often\b/i;
/** Words that take clients and processes for people; HE-AAC is a codec. */
export const PERSON =
  /\b(?:[Hh]e|[Hh]im(?:self)?|[Hh]is|[Ss]he|[Hh]er(?:s|self)?|(?:client|listener|node|peer|player|process|sender|speaker|talker|worker)(?:e?s)?,? who|those who)\b/;

/**
 * Returns the sentences of all comments that have lines of their own.
 * @param {string} text of a file
 * @returns {{ line: number, sentence: string, opensDoc: boolean }[]} `opensDoc`: the first of a doc comment
 */
function sentencesOf(text) {
  /** @type {{ line: number, text: string, isDoc: boolean }[]} */
  const comments = [];
  let isOpen = false;
  for (const [i, line] of text.split('\n').entries()) {
    const [, opener, words = ''] = /^\s*(\/\/|\/\*+|\*\/?)\s?(.*)$/.exec(line) ?? [];
    if (opener === undefined) {
      isOpen = false;
      continue;
    }
    if (!isOpen || opener.startsWith('/*')) {
      comments.push({ line: i + 1, text: '', isDoc: opener === '/**' });
    }
    isOpen = true;
    const last = comments.at(-1);
    if (last) last.text += ` ${words.replace(/\*\/.*$/, '').trim()}`;
  }
  return comments.flatMap(({ line, text: comment, isDoc }) =>
    comment
      .replaceAll(/@param (?:\{.*?\} )?[\w.[\]]+|@returns(?: \{.*?\})?|@throws \{\w+\}/g, '\n')
      .split(/\n|(?<=[.:;])\s+(?=[A-Z`])/)
      .map((sentence, i) => ({ line, sentence: sentence.trim(), opensDoc: isDoc && i === 0 })),
  );
}

/**
 * Finds the sentences in the comments of a file that break the rules.
 * @param {string} text of a file
 */
export function faultsOf(text) {
  return sentencesOf(text).filter(
    ({ sentence, opensDoc }) =>
      OPENING.test(sentence) ||
      (opensDoc && POINTING_OPENING.test(sentence)) ||
      UNNAMED_NUMBER.test(sentence) ||
      PERSON.test(sentence),
  );
}

/**
 * Finds the sentences in the comments of a Lua script that break the rules. Its head is a doc comment, which describes keys,
 * arguments and reply.
 * @param {string} text of a script
 */
export function luaFaultsOf(text) {
  let isHead = false;
  const lines = text.split('\n').map((line) => {
    const isOpened = line.startsWith('--[[');
    isHead = (isHead || isOpened) && !line.startsWith(']]');
    if (isOpened) return line.replace('--[[', '/**');
    if (line.startsWith('-- @include ')) return '';
    if (!isHead) return line.replace(/^(\s*)--/, '$1//').replace(/^]]/, ' */');
    const parted = line
      .replace(/^(KEYS|ARGV)\[\d+…?\]/, '@param $1')
      .replace(/^Returns /, '@returns ');
    return ` * ${parted}`;
  });
  return faultsOf(lines.join('\n'));
}
