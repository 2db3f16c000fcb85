import { parse, type SessionDescription } from 'sdp-transform';
import { PartylineError } from '../protocol/errors.ts';

/** Longest line of SDP that is read: no client writes a tenth of it. */
const MAX_LINE_CHARACTERS = 4096;
/** Maximum number of lines: offers of browsers with video have some hundreds, fragments a few candidates. */
const MAX_LINES = 1000;
const MAX_FRAGMENT_LINES = 256;
const LINE = /^[a-z]=/;
/** Media, port, protocol and formats (RFC 4566 §5.14), of which sdp-transform reads nothing if one is missing. */
const MEDIA_LINE = /^m=\w+ \d+ [\w/]+ \S/;

/** Returns the fault of valid SDP that cannot be used. */
export const unusable = (fault: string) => new PartylineError('unprocessable', `SDP: ${fault}.`);

const malformed = (fault: string) => new PartylineError('bad_request', `Not SDP: ${fault}.`);

/**
 * Parses a whole session description.
 * @throws {PartylineError} `bad_request` if the text is not SDP
 */
export function parseDescription(text: string): SessionDescription {
  const [first] = readLines(text, MAX_LINES);
  if (first !== 'v=0') throw malformed('the first line must be "v=0"');
  const session = parseLines(text);
  if (!session.origin || session.name === undefined) {
    throw malformed('"o=" or "s=" is missing');
  }
  return session;
}

/**
 * Parses a fragment (RFC 8840 §9), which begins with attributes or a media line.
 * @throws {PartylineError} `bad_request` if the text is not SDP
 */
export function parseFragmentText(text: string): SessionDescription {
  const lines = readLines(text, MAX_FRAGMENT_LINES);
  if (!lines.every((line) => line.startsWith('a=') || line.startsWith('m='))) {
    throw malformed('a fragment has "a=" and "m=" lines only');
  }
  return parseLines(text);
}

/** Splits a text as sdp-transform does: bare line feeds are common. */
function readLines(text: string, maxLines: number): string[] {
  const lines = text.split(/\r\n|\r|\n/).filter((line) => line !== '');
  if (lines.length === 0) throw malformed('there is nothing in it');
  if (lines.length > maxLines) throw malformed(`it has more than ${maxLines} lines`);
  for (const line of lines) {
    if (!LINE.test(line)) throw malformed('each line must begin with a letter and "="');
    if (line.startsWith('m=') && !MEDIA_LINE.test(line)) throw malformed('a media line is cut');
    if (line.length > MAX_LINE_CHARACTERS) {
      throw malformed(`a line has more than ${MAX_LINE_CHARACTERS} characters`);
    }
  }
  return lines;
}

function parseLines(text: string): SessionDescription {
  try {
    return parse(text);
  } catch (cause) {
    throw new PartylineError('bad_request', 'Not SDP.', { cause });
  }
}

/** Returns a value of a parsed line as text: sdp-transform parses digits as numbers, against its types. */
export const asText = (value: string | number): string => String(value);
