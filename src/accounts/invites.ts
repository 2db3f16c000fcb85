import { randomInt } from 'node:crypto';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { checkName } from '../protocol/names.ts';
import { LONGEST_LIFE_SECONDS, MAX_TOKEN_TTL_SECONDS, type SigningKeys } from './signing-keys.ts';
import type { TokenOwner } from './tokens.ts';

/** Issuer of invitations. It differs from that of tokens, so that neither is accepted in place of the other. */
const ISSUER = 'partyline/invite';
const DAY_SECONDS = 86_400;
/** Maximum length of an invitation: a key and a room name of 128 escaped characters take about 2,000 characters. */
const MAX_INVITE_CHARACTERS = 4000;
const MAX_NAME_CHARACTERS = 128;
const DEFAULT_NAME = 'guest';
/** Alphabet without letters and digits that look alike (Crockford's Base32, in lower case). */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/**
 * Length of the suffix that makes a guest's name unique: 40 bits, so that two of a thousand guests of one name collide once in two
 * million times.
 */
const SUFFIX_CHARACTERS = 8;
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Body of `POST /api/invites`. */
export const InviteRequestSchema = Type.Object(
  {
    room: Type.String({ minLength: 1, maxLength: 256 }),
    expires_in_s: Type.Optional(
      Type.Integer({ minimum: 1, maximum: LONGEST_LIFE_SECONDS, default: DAY_SECONDS }),
    ),
    publish: Type.Optional(Type.Boolean({ default: true })),
  },
  { additionalProperties: false },
);
export type InviteRequest = Static<typeof InviteRequestSchema>;

/** Body of `POST /api/invites/redeem`. */
export const RedemptionSchema = Type.Object(
  {
    invite: Type.String({ minLength: 1, maxLength: MAX_INVITE_CHARACTERS }),
    name: Type.Optional(Type.String({ minLength: 1 })),
  },
  { additionalProperties: false },
);

const ClaimsSchema = Type.Object({
  /** The account. */
  sub: Type.String({ pattern: '^\\d+$' }),
  /** The API key that made the invitation; revoking the key ends the invitation. */
  key: Type.String(),
  room: Type.String(),
  publish: Type.Boolean(),
});
const claimsValidator = Compile(ClaimsSchema);
const READING = {
  what: 'invitation',
  issuer: ISSUER,
  parse: (claims: unknown) => claimsValidator.Parse(claims),
};

/** Rights of every holder of the invitation. */
export type Invitation = {
  owner: TokenOwner;
  room: string;
  publish: boolean;
  /** Lifetime of a token that is given for it, seconds. */
  ttlSeconds: number;
};

/** Invitations into a room: signed JWTs that can be exchanged for tokens, any number of times, until they expire. */
export class Invites {
  readonly #keys: SigningKeys;

  constructor(keys: SigningKeys) {
    this.#keys = keys;
  }

  /** Signs an invitation. @throws {PartylineError} `overloaded` */
  async issue(
    { accountId, keyId }: TokenOwner,
    { room, expires_in_s: ttlSeconds = DAY_SECONDS, publish = true }: InviteRequest,
  ): Promise<{ invite: string; expires_at: string }> {
    const claims = { key: keyId, room, publish };
    const signed = await this.#keys.sign({ issuer: ISSUER, accountId, claims, ttlSeconds });
    return { invite: signed.jwt, expires_at: signed.expires_at };
  }

  /** @throws {PartylineError} `unauthorized` if the invitation is foreign, changed or expired; `overloaded` */
  async verify(invite: string): Promise<Invitation> {
    const { claims, secondsLeft } = await this.#keys.verify(invite, READING);
    return {
      owner: { accountId: Number(claims.sub), keyId: claims.key },
      room: claims.room,
      publish: claims.publish,
      ttlSeconds: Math.max(1, Math.min(secondsLeft, MAX_TOKEN_TTL_SECONDS)),
    };
  }
}

/**
 * Returns a unique name for a peer.
 * @param name chosen by the guest; its end is cut off where it would be too long for a peer's name
 * @throws {PartylineError} `bad_request` if the rest is not the name of a peer
 */
export function guestName(name = DEFAULT_NAME): string {
  const suffix = Array.from({ length: SUFFIX_CHARACTERS }, () => ALPHABET[randomInt(32)]).join('');
  const kept = shorten(name, MAX_NAME_CHARACTERS - SUFFIX_CHARACTERS - 1);
  return `${checkName(kept, 'name', 'bad_request')}-${suffix}`;
}

/** Returns the beginning of a text: whole graphemes, of at most `maxCharacters` in all. */
function shorten(text: string, maxCharacters: number): string {
  // A grapheme that reaches beyond this is cut off in any case.
  const beginning = text.slice(0, 2 * (maxCharacters + 1));
  let kept = '';
  let characters = 0;
  for (const { segment } of graphemes.segment(beginning)) {
    characters += Array.from(segment).length;
    if (characters > maxCharacters) break;
    kept += segment;
  }
  // A letter may have any number of accents.
  return kept === '' ? Array.from(beginning).slice(0, maxCharacters).join('') : kept;
}
