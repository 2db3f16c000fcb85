import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { PartylineError, replaced } from '../protocol/errors.ts';
import { leaseKeys } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { type LastLocation, parseLocation } from './last-location.ts';
import { type LeaseHolder, keysOfPeer } from './lease-holder.ts';
import { LeaseNotes } from './lease-notes.ts';
import { LeaseReleases, type Release } from './lease-releases.ts';
import { LeaseRenewals } from './lease-renewals.ts';

/** A session, as it is stored beside its place. */
export type StoredSession = {
  sessionId: string;
  /** Settings of the client, as text. */
  settings: string;
};

/** Result of taking a lease. */
export type Admission = {
  /** Location of the peer on its former connection, whose lease is taken over. */
  lastLocation: LastLocation | undefined;
  /** True if the peer had this session before. */
  isResumed: boolean;
  /** Settings of the resumed session, otherwise those that were passed. */
  settings: string;
  /** Higher than the order of every earlier lease of the account. */
  order: number;
};

/** Half of a peer, whose other half may be on another node. */
export type HalfOfPeer = {
  /** Stored with the lease, so that one of two halves that come at once finds the other. */
  place: LastLocation;
  /** Prefix of the ids of sessions that the half joins, if they are in the same room. */
  joins: string;
  /** Prefix of the ids of sessions among them that it replaces; empty if it joins none. */
  replaces: string;
};

/** Reply of `admitLease`. */
type AdmitReply = [
  admitted: number,
  held: number,
  place: string | null,
  known?: number,
  stored?: string,
  order?: number,
];

/**
 * Leases of an account's connections over all nodes: one per peer, which expires by itself when the node that held it
 * is killed.
 */
export class CcuLeases {
  readonly #redis: Redis;
  readonly #log: FastifyBaseLogger;
  /** Leases of this process with their orders, by account. */
  readonly #held = new Map<number, Map<LeaseHolder, number>>();
  readonly #onTaken: (accountId: number, peer: string, connectionId: string) => void;
  readonly #timings: Timings['leases'];
  readonly #keepMs: number;
  /** Release of a connection that was refused. */
  readonly #withdrawal: Release;
  readonly #renewals: LeaseRenewals;
  readonly #notes: LeaseNotes;
  readonly #releases: LeaseReleases;

  /**
   * @param onTaken called when the same peer has connected on another node whose message was lost
   * @param keepMs time for which places and settings of lost connections are kept
   */
  constructor(
    redis: Redis,
    log: FastifyBaseLogger,
    onTaken: (accountId: number, peer: string, connectionId: string) => void,
    timings: Timings['leases'],
    keepMs: number,
  ) {
    this.#redis = redis;
    this.#notes = new LeaseNotes(redis);
    this.#releases = new LeaseReleases(redis);
    this.#onTaken = onTaken;
    this.#log = log;
    this.#timings = timings;
    this.#keepMs = keepMs;
    this.#withdrawal = { keepSettingsMs: Math.max(timings.leaseMs, keepMs), isWithdrawn: true };
    this.#renewals = new LeaseRenewals(redis, () => void this.#renew(), timings);
  }

  /**
   * Takes a lease.
   * @param isMoved true if the holder was handed over by another process; a peer that has connected since is newer
   * @param session session of the holder, unless the peer had one before
   * @throws {PartylineError} `ccu_limit`, `replaced`, `overloaded`
   */
  async admit(
    holder: LeaseHolder,
    maxCcu: number,
    isMoved: boolean,
    { sessionId, settings }: StoredSession = { sessionId: '', settings: '' },
  ): Promise<Admission> {
    const words = [isMoved ? '1' : '0', sessionId, settings, '', '', ''];
    const failed = this.#withdrawal;
    const reply = await this.#askForLease(holder, maxCcu, words, failed);
    return this.#readAdmission(holder, maxCcu, sessionId, reply);
  }

  /**
   * Takes a lease for half of a peer.
   * @returns the lease, or the id of the session that it must join instead
   * @throws {PartylineError} as {@link admit} does
   */
  async admitHalf(
    holder: LeaseHolder,
    maxCcu: number,
    { place, joins, replaces }: HalfOfPeer,
  ): Promise<Admission | { elsewhere: string }> {
    const words = ['0', place.sessionId, '', JSON.stringify(place), joins, replaces];
    // The place that the admission stores is of no use to anyone else.
    const failed = { keepSettingsMs: 0, isWithdrawn: false };
    const reply = await this.#askForLease(holder, maxCcu, words, failed);
    if (reply[0] === -2) {
      // Not `parseLocation`: a newer build may have stored a kind that this one does not know.
      const { sessionId } = JSON.parse(reply[2] ?? '') as { sessionId: string };
      return { elsewhere: sessionId };
    }
    const admission = this.#readAdmission(holder, maxCcu, place.sessionId, reply);
    this.#notes.keep(holder, 'place', JSON.stringify(place));
    return admission;
  }

  #readAdmission(
    holder: LeaseHolder,
    maxCcu: number,
    sessionId: string,
    [admitted, , place, known, stored = '', order = 0]: AdmitReply,
  ): Admission {
    const { accountId } = holder;
    if (admitted === -1) throw replaced();
    if (admitted === 0) {
      const message = `All ${maxCcu} connections of the account are in use.`;
      throw new PartylineError('ccu_limit', message, { retryAfterMs: this.#timings.retryAfterMs });
    }
    const holders = this.#held.get(accountId) ?? new Map<LeaseHolder, number>();
    this.#held.set(accountId, holders.set(holder, order));
    this.#notes.keep(holder, 'settings', `${sessionId} ${stored}`);
    return {
      lastLocation: parseLocation(place),
      isResumed: known === 1,
      settings: stored,
      order,
    };
  }

  /**
   * Asks Redis for a lease.
   * @param failed way in which a lease is released later that Redis grants after the time-out, because it has no holder
   */
  async #askForLease(
    holder: LeaseHolder,
    maxCcu: number,
    words: string[],
    failed: Release,
  ): Promise<AdmitReply> {
    const { peer, connectionId } = holder;
    const common = [peer, connectionId, String(maxCcu), String(this.#timings.leaseMs)];
    try {
      const options = { keys: keysOfPeer(holder), arguments: [...common, ...words] };
      return (await this.#redis.run((client) => client.admitLease(options))) as AdmitReply;
    } catch (fault) {
      this.#releases.add(holder, failed);
      throw fault;
    }
  }

  /** Stores the settings of a lease's holder, for when it resumes; if Redis is disconnected, again after the reconnect. */
  async save(holder: LeaseHolder, { sessionId, settings }: StoredSession): Promise<void> {
    if (this.#holds(holder))
      await this.#notes.write(holder, 'settings', `${sessionId} ${settings}`);
  }

  /** Stores the location of a lease's holder, for when it resumes on another node; if Redis is disconnected, again after the reconnect. */
  async place(holder: LeaseHolder, place?: LastLocation): Promise<void> {
    const text = place ? JSON.stringify(place) : '';
    if (this.#holds(holder)) await this.#notes.write(holder, 'place', text);
  }

  /** Returns the stored location of a peer; undefined if it is in no room. */
  async findPlace({ accountId, peer }: Pick<LeaseHolder, 'accountId' | 'peer'>) {
    const key = leaseKeys(accountId)[2]!;
    const text = await this.#redis.run((client) => client.hGet(key, peer));
    return parseLocation(text);
  }

  async count(accountId: number): Promise<number> {
    const keys = leaseKeys(accountId).slice(0, 1);
    return Number(await this.#redis.run((client) => client.countLeases({ keys })));
  }

  /** Leaves a lease to another process; it expires if that process does not take it over. */
  handOver(holder: LeaseHolder): void {
    this.#forget(holder);
  }

  /**
   * Releases a lease; if Redis is disconnected, after the reconnect.
   * @param keepSettingsMs time for which its settings are kept, for a client that was in no room and may resume
   */
  async release(holder: LeaseHolder, keepSettingsMs = 0): Promise<void> {
    const how = { keepSettingsMs, isWithdrawn: false };
    if (this.#forget(holder)) await this.#releases.release(holder, how);
  }

  /**
   * Releases the lease of a connection that was refused after its admission; if Redis is disconnected, after the reconnect.
   * Its peer's place and settings stay: a connection before it takes the lease back, or they expire.
   */
  async withdraw(holder: LeaseHolder): Promise<void> {
    if (this.#forget(holder)) await this.#releases.release(holder, this.#withdrawal);
  }

  /** Stops renewing. Leases that are still held belong to places that are kept after this node has left, and expire with them. */
  async close(): Promise<void> {
    this.#renewals.close();
    this.#notes.close();
    const leaving = [...this.#held].map(([accountId, holders]) => {
      const pairs = [...holders.keys()].flatMap(({ peer, connectionId }) => [peer, connectionId]);
      const options = { keys: leaseKeys(accountId), arguments: [String(this.#keepMs), ...pairs] };
      return this.#tryTo(accountId, 'expiry of leases not set', () =>
        this.#redis.run((client) => client.letLeasesExpire(options)),
      );
    });
    // All at once, so that a Redis that hangs delays the end of this process only once.
    await Promise.all(leaving);
    this.#held.clear();
  }

  #holds(holder: LeaseHolder): boolean {
    return this.#held.get(holder.accountId)?.has(holder) ?? false;
  }

  /** @returns false if it is not held */
  #forget(holder: LeaseHolder): boolean {
    const holders = this.#held.get(holder.accountId);
    if (!holders?.delete(holder)) return false;
    this.#notes.forget(holder);
    if (holders.size === 0) this.#held.delete(holder.accountId);
    return true;
  }

  async #renew(): Promise<void> {
    for (const [accountId, holders] of this.#held) {
      // A plan allows 500 leases; Lua takes about 4000 at once.
      const renew = () => this.#renewAll(accountId, [...holders]);
      await this.#tryTo(accountId, 'leases not renewed; retrying', renew);
    }
    for (const holder of this.#notes.holders()) {
      const write = () => this.#notes.writeAgain(holder);
      const failure = 'place or settings of a peer not stored; retrying';
      if (!(await this.#tryTo(holder.accountId, failure, write))) break;
    }
    for (const holder of this.#releases.holders()) {
      // If one fails, the others would fail too.
      const release = () => this.#releases.repeat(holder);
      const failure = 'lease not released; retrying';
      if (!(await this.#tryTo(holder.accountId, failure, release))) break;
    }
  }

  /**
   * @param failure log message if Redis does not answer, or refuses
   * @returns false in that case
   */
  async #tryTo(
    accountId: number,
    failure: string,
    work: () => Promise<unknown>,
  ): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (fault) {
      this.#log.warn({ err: fault, account: accountId }, failure);
      return false;
    }
  }

  async #renewAll(accountId: number, held: [LeaseHolder, number][]): Promise<void> {
    const words = held.flatMap(([{ peer, connectionId: id }, order]) => [peer, id, String(order)]);
    const options = {
      keys: leaseKeys(accountId),
      arguments: [String(this.#timings.leaseMs), ...words],
    };
    const reply = await this.#redis.run((client) => client.renewLeases(options));
    const [taken, placeless, unset, regained] = (reply as string[][]).map((ids) => new Set(ids));
    for (const [holder] of held) {
      const { peer, connectionId } = holder;
      if (taken?.has(connectionId)) this.#onTaken(accountId, peer, connectionId);
      if (placeless?.has(connectionId)) this.#notes.noteMissing(holder, 'place');
      if (unset?.has(connectionId)) this.#notes.noteMissing(holder, 'settings');
      // A connection that held the lease in between may have changed both.
      if (regained?.has(connectionId)) this.#notes.doubt(holder);
    }
  }
}
