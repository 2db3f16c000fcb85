import type { ErrorCode } from './close-codes.ts';
import { PartylineError } from './errors.ts';

/** Name of the lobby, where a peer is while it is in no room. */
export const LOBBY = '__lobby__';

/** Name of the echo room, in which each peer is alone and hears itself. */
export const ECHO_ROOM = '__echo__';

const MAX_NAME_CHARACTERS = 128;
/**
 * Characters that names must not have: control characters, lone surrogates, line separators, noncharacters and annotations;
 * and characters that make a name look like another: those that change the direction of writing, or are invisible (except
 * joiners and variation selectors, which some scripts and emoji need).
 */
const UNPRINTABLE =
  /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}\p{Bidi_Control}\u{fff9}-\u{fffb}[\p{Default_Ignorable_Code_Point}--[\p{Join_Control}\u{fe00}-\u{fe0f}]]]/v;
/** Invisible characters where they show something: in flags of emoji, and behind characters of which they choose a variant. */
const SHOWN =
  /\p{RGI_Emoji_Tag_Sequence}|\p{Ideographic}[\u{e0100}-\u{e01ef}]|\p{Script=Mongolian}[\u{180b}-\u{180d}\u{180f}]/gv;
/** A visible character, of which a name needs at least one; U+2800 is braille without a dot. */
const VISIBLE = /[^\p{Z}\p{Default_Ignorable_Code_Point}\u{2800}]/v;

/**
 * Checks the name of a room or a peer (docs/protocol.md, "Names").
 * @param what name used in the error
 * @throws {PartylineError} with the given code
 */
export function checkName(name: string, what: string, code: ErrorCode): string {
  const fail = (fault: string) => new PartylineError(code, `"${what}" ${fault}.`);
  const characters = Array.from(name).length;
  if (characters === 0) throw fail('must not be empty');
  if (characters > MAX_NAME_CHARACTERS) {
    throw fail(`must have at most ${MAX_NAME_CHARACTERS} characters`);
  }
  if (UNPRINTABLE.test(name.replace(SHOWN, '')) || !VISIBLE.test(name)) {
    throw fail('must be printable');
  }
  // Decoders put U+FFFD in place of bytes that are not UTF-8: different names become the same.
  if (name.includes('\u{fffd}')) throw fail('must be UTF-8, and without U+FFFD');
  // URL clients remove such a segment of a path, however it is encoded (WHATWG URL, "double-dot
  // path segment").
  if (name === '.' || name === '..') throw fail('must not be "." or ".."');
  if (name.startsWith('__')) throw fail('must not begin with "__", which is reserved');
  return name;
}

/**
 * Checks the name of a room that a client wants to join.
 * @throws {PartylineError} with the given code
 */
export const checkRoomName = (name: string, code: ErrorCode, what = 'room'): string =>
  name === ECHO_ROOM ? name : checkName(name, what, code);
