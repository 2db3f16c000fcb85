import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { PartylineError } from '../protocol/errors.ts';
import { MAX_TOKEN_TTL_SECONDS, type SigningKeys } from './signing-keys.ts';

const ISSUER = 'partyline';
/** The longest token, so that a URL with it has room in the 16 KB of headers that Node takes. */
export const MAX_TOKEN_CHARACTERS = 12_000;

/** Request for a token (docs/protocol.md §4). */
export const TokenRequestSchema = Type.Object(
  {
    peer: Type.String({ minLength: 1, maxLength: 256 }),
    /** None at all: the peer may be in the lobby, and hear itself in the echo room. */
    rooms: Type.Union([
      Type.Literal('*'),
      Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { maxItems: 100 }),
    ]),
    ttl_seconds: Type.Integer({ minimum: 1, maximum: MAX_TOKEN_TTL_SECONDS }),
    publish: Type.Boolean(),
  },
  { additionalProperties: false },
);
export type TokenRequest = Static<typeof TokenRequestSchema>;

const ClaimsSchema = Type.Object({
  /** The account. */
  sub: Type.String({ pattern: '^\\d+$' }),
  /** The API key that requested the token; revoking the key ends the token. */
  key: Type.String(),
  peer: Type.String(),
  rooms: TokenRequestSchema.properties.rooms,
  publish: Type.Boolean(),
});
const claimsValidator = Compile(ClaimsSchema);
const READING = {
  what: 'token',
  issuer: ISSUER,
  parse: (claims: unknown) => claimsValidator.Parse(claims),
};

/** Rights of a token, within those of the account. */
export const GrantSchema = Type.Pick(TokenRequestSchema, ['peer', 'rooms', 'publish']);
export type Grant = Static<typeof GrantSchema>;
export type TokenOwner = { accountId: number; keyId: string };

/** Short-lived tokens in place of API keys: signed JWTs. */
export class Tokens {
  readonly #keys: SigningKeys;

  constructor(keys: SigningKeys) {
    this.#keys = keys;
  }

  /** Signs a token. @throws {PartylineError} `bad_request` if it would be too long, `overloaded` */
  async issue(
    { accountId, keyId }: TokenOwner,
    { ttl_seconds: ttlSeconds, ...grant }: TokenRequest,
  ): Promise<{ token: string; expires_at: string }> {
    const claims = { ...grant, key: keyId };
    const signed = await this.#keys.sign({ issuer: ISSUER, accountId, claims, ttlSeconds });
    if (signed.jwt.length > MAX_TOKEN_CHARACTERS) {
      throw new PartylineError(
        'bad_request',
        '"rooms" is too long for a token; "*" stands for all.',
      );
    }
    return { token: signed.jwt, expires_at: signed.expires_at };
  }

  /**
   * @param mayBeExpired true to accept a token that has expired
   * @throws {PartylineError} `unauthorized` if it is longer than any token, was not signed by this cluster, has been changed
   * or has expired; `overloaded`
   */
  async verify(
    token: string,
    mayBeExpired = false,
  ): Promise<{ owner: TokenOwner; grant: Grant; signedBy: string }> {
    if (token.length > MAX_TOKEN_CHARACTERS) {
      throw new PartylineError('unauthorized', 'The token is not valid.');
    }
    const { claims, signedBy } = await this.#keys.verify(token, { ...READING, mayBeExpired });
    const { sub, key: keyId, peer, rooms, publish } = claims;
    const owner = { accountId: Number(sub), keyId };
    return { owner, grant: { peer, rooms, publish }, signedBy };
  }
}
