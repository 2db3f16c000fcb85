import { createHash } from 'node:crypto';
import { mayNotPublish, PartylineError } from '../protocol/errors.ts';
import { ECHO_ROOM } from '../protocol/names.ts';
import type { Account, Accounts } from './accounts.ts';
import type { Invitation, Invites } from './invites.ts';
import { keyPart, type RateLimits, tokenPart } from './rate-limits.ts';
import type { Grant, TokenOwner, Tokens } from './tokens.ts';

/** Identity of a client, proven by an API key or by a token that was issued for one. */
export type Credentials = {
  account: Account;
  /** Id of the API key, or of the key that requested the token. */
  keyId: string;
  /** Rights of the token; undefined for a key, which has all rights of the account. */
  grant: Grant | undefined;
  /** Id of the key that signed the token. */
  signedBy?: string | undefined;
};

/** Valid API keys of an account, and withdrawn signing keys of tokens. */
export type KeyState = { keyIds: ReadonlySet<string>; withdrawn: ReadonlySet<string> };

/** Number of valid keys and tokens that are remembered. */
const MAX_KNOWN = 10_000;

/** Authenticates clients by API key, token or invitation, and slows down those that guess. */
export class Authenticator {
  readonly #accounts: Accounts;
  readonly #tokens: Tokens;
  readonly #invites: Invites;
  readonly #limits: RateLimits;
  /**
   * Digests of keys and tokens that were valid lately, the oldest first: these are looked up even if their
   * address is blocked.
   */
  readonly #known = new Set<string>();

  constructor(accounts: Accounts, tokens: Tokens, invites: Invites, limits: RateLimits) {
    this.#accounts = accounts;
    this.#tokens = tokens;
    this.#invites = invites;
    this.#limits = limits;
  }

  /**
   * Looks an API key up.
   * @param address address of the client
   * @throws {PartylineError} `unauthorized`, `rate_limited`, `overloaded`
   */
  byKey(apiKey: string, address: string): Promise<Credentials> {
    return this.#attempt(apiKey, keyPart(apiKey), address, async () => {
      const found = await this.#accounts.findByKey(apiKey);
      if (!found) throw new PartylineError('unauthorized', 'The API key is not known.');
      return { ...found, grant: undefined };
    });
  }

  /**
   * Verifies a token; it is valid only while the key that requested it is.
   * @param onOwner called with the account id before the account is looked up; an error that it throws
   *   rejects the attempt
   * @param mayBeExpired true to accept a token that has expired
   * @throws {PartylineError} `unauthorized`, `rate_limited`, `overloaded`
   */
  byToken(
    token: string,
    address: string,
    onOwner: (accountId: number) => void,
    mayBeExpired = false,
  ): Promise<Credentials> {
    return this.#attempt(token, tokenPart(token), address, async () => {
      const { owner, grant, signedBy } = await this.#tokens.verify(token, mayBeExpired);
      onOwner(owner.accountId);
      const account = await this.#findOwner(owner, 'token');
      return { account, keyId: owner.keyId, grant, signedBy };
    });
  }

  /**
   * Verifies an invitation; it is valid only while the key that made it is.
   * @returns the invitation and its account, which may be suspended or closed
   * @throws {PartylineError} `unauthorized`, `rate_limited`, `overloaded`
   */
  byInvite(invite: string, address: string): Promise<Invitation & { account: Account }> {
    return this.#attempt(invite, tokenPart(invite), address, async () => {
      const invitation = await this.#invites.verify(invite);
      return { ...invitation, account: await this.#findOwner(invitation.owner, 'invitation') };
    });
  }

  /** @throws {PartylineError} `unauthorized` if the account, or the key, is gone */
  async #findOwner({ accountId, keyId }: TokenOwner, what: string): Promise<Account> {
    const account = await this.#accounts.findByKeyId(accountId, keyId);
    if (account) return account;
    throw new PartylineError('unauthorized', `The API key of the ${what} has been revoked.`);
  }

  async #attempt<T>(
    secret: string,
    part: string | undefined,
    address: string,
    look: () => Promise<T>,
  ): Promise<T> {
    const digest = createHash('sha256').update(secret).digest('base64');
    if (!this.#known.has(digest)) await this.#limits.checkAddress(address);
    try {
      const found = await look();
      this.#remember(digest);
      return found;
    } catch (fault) {
      const isFailure = PartylineError.from(fault).code === 'unauthorized';
      if (isFailure) {
        this.#known.delete(digest);
        await this.#limits.countFailure(address, part);
      }
      throw fault;
    }
  }

  #remember(digest: string): void {
    this.#known.delete(digest);
    this.#known.add(digest);
    if (this.#known.size <= MAX_KNOWN) return;
    const [oldest] = this.#known;
    if (oldest !== undefined) this.#known.delete(oldest);
  }
}

/** @throws {PartylineError} `forbidden` unless the account is active */
export function requireActive({ account }: Pick<Credentials, 'account'>): void {
  if (account.status !== 'active') throw notActive(account);
}

/** Returns the fault that ends a client which was admitted before its account changed; undefined if it may stay. */
export function accountFault(
  account: Account,
  { keyIds, withdrawn }: KeyState,
  { keyId, signedBy }: Pick<Credentials, 'keyId' | 'signedBy'>,
): PartylineError | undefined {
  if (account.status !== 'active') return notActive(account);
  if (signedBy !== undefined && withdrawn.has(signedBy)) {
    return new PartylineError('unauthorized', 'The token has been withdrawn.');
  }
  if (keyIds.has(keyId)) return undefined;
  return new PartylineError('unauthorized', 'The API key has been revoked.');
}

const notActive = ({ status }: Account) =>
  new PartylineError('forbidden', `The account is ${status}.`);

/** Returns whether a client may be heard: always with an API key, and with a token that says so. */
export const mayPublish = ({ grant }: Pick<Credentials, 'grant'>): boolean =>
  grant?.publish ?? true;

/** Returns the reason why a client may not be in a room; undefined if it may. Every client that may publish may hear itself. */
export function roomFault(
  { grant }: Pick<Credentials, 'grant'>,
  room: string,
): PartylineError | undefined {
  if (room === ECHO_ROOM) return mayPublish({ grant }) ? undefined : mayNotPublish();
  if (!grant || grant.rooms === '*' || grant.rooms.includes(room)) return undefined;
  return new PartylineError('forbidden', 'The token does not grant this room.');
}

/** The secret of an `Authorization: Bearer` header: one word, behind one space or more (RFC 9110 §11.4). */
export const bearerOf = (header = ''): string | undefined => /^bearer +(\S+)$/i.exec(header)?.[1];
