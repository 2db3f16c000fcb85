/** Rule for names of times (docs/glossary.md, "Time and level"), as far as a program can hold it. */

/** Names of times by the monotonic clock. `expiresAtMs` is wall time: the pages keep it in the storage of a browser under that name. */
const MONOTONIC = String.raw`(?:nowMs|atMs|(?!expiresAtMs)\w+AtMs)\b`;
/** Names of wall time. */
const WALL = String.raw`(?:wallMs|\w+WallMs)\b`;
/** Path to a property or a private field. */
const PATH = String.raw`(?:[\w.?]+[.])?#?`;
/** Text between the name of a variable, a parameter, an option or a field and its value, which may be a function. */
const GETS = String.raw`(?:: number)?(?: \?\?)?\s*[:=]\s*(?:\(\) => )?\(?(?:await )?`;
/** Operators that take two times of one clock. */
const WITH = String.raw`(?:\(\))? (?:[-<>]|<=|>=) `;

const WALL_CLOCK = String.raw`(?:${PATH}${WALL}|Date\.now\b|Date\.UTC\b|Date\.parse\b|\+?new Date\b)`;
const MONOTONIC_CLOCK = String.raw`(?:${PATH}${MONOTONIC}|performance\.now\b)`;

const FAULTS = [
  String.raw`\bnew Date\(${PATH}${MONOTONIC}`,
  String.raw`(?<!\w)${MONOTONIC}${GETS}${WALL_CLOCK}`,
  String.raw`(?<!\w)${WALL}${GETS}${MONOTONIC_CLOCK}`,
  String.raw`(?<!\w)(?:${MONOTONIC}|performance\.now)${WITH}${WALL_CLOCK}`,
  String.raw`(?<!\w)(?:${WALL}|Date\.now)${WITH}${MONOTONIC_CLOCK}`,
  String.raw`@param ${MONOTONIC}.*\b(?:1970|Unix time)\b`,
  String.raw`\b(?:1970|Unix time)\b.*\*/\s+(?:readonly )?#?${MONOTONIC}`,
].map((fault) => new RegExp(fault, 'g'));

/**
 * Finds the lines of a file in which a time of one clock has the name of the other.
 * @param {string} text of a file
 */
export function clockFaultsOf(text) {
  return FAULTS.flatMap((fault) =>
    [...text.matchAll(fault)].map((match) => ({
      line: text.slice(0, match.index).split('\n').length,
      sentence: `Two clocks: ${match[0].replaceAll(/\s+/g, ' ')}`,
    })),
  );
}
