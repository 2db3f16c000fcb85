import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { LogOnceASecond } from '../log-once-a-second.ts';
import { PartylineError, replaced } from '../protocol/errors.ts';
import { leaseExpiriesKey, leaseKeys, leasePlacesKey } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { type StoredPlace, parsePlace } from './stored-place.ts';
import { type LeaseHolder, keysOfPeer } from './lease-holder.ts';
import { LeaseNotes } from './lease-notes.ts';
import { LeaseReleases, type Release } from './lease-releases.ts';
import { LeaseRenewals } from './lease-renewals.ts';
import {
  type AdmitReply,
  type HalfOfPeer,
  type LeaseRequest,
  REFUSED,
  type StoredSession,
  wordsOf,
} from './lease-request.ts';

/** Result of taking a lease. */
export type Admission = {
  /** Place of the peer on its former connection, whose lease is taken over. */
  lastPlace: StoredPlace | undefined;
  /** True if the peer had this session before. */
  isResumed: boolean;
  /** Settings of the resumed session, otherwise those that were passed. */
  settings: string;
  /** Rising number of the lease: of two claims of a peer, the higher is the newer. */
  order: number;
};

/**
 * Leases of an account's connections over all nodes: one per peer, which expires by itself when the node that held it
 * is killed.
 */
export class CcuLeases {
  readonly #redis: Redis;
  readonly #log: FastifyBaseLogger;
  readonly #faults = new LogOnceASecond();
  /** Leases of this process with their orders, by account. */
  readonly #held = new Map<number, Map<LeaseHolder, number>>();
  readonly #onTaken: (accountId: number, peer: string, connectionId: string) => void;
  readonly #timings: Timings['leases'];
  readonly #keepMs: number;
  /** Release of a lease whose connection was refused, or whose admission got no answer. */
  readonly #withdrawal: Release;
  readonly #renewals: LeaseRenewals;
  readonly #notes: LeaseNotes;
  readonly #releases: LeaseReleases;
  #isClosed = false;

  /**
   * @param onTaken called when a renewal finds that another connection holds the lease: the bus message about it was lost
   * @param keepMs time for which places and settings of lost connections are kept, ms
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
   * @param isMoved true if the holder was handed over by another process: then a connection made since then keeps the lease
   * @param session session of the holder; resumed, with the settings that are stored, if the peer's last one has the same id
   * @throws {PartylineError} `ccu_limit`, `replaced`, `overloaded`
   */
  async admit(
    holder: LeaseHolder,
    maxCcu: number,
    isMoved: boolean,
    session: StoredSession = { sessionId: '', settings: '' },
  ): Promise<Admission> {
    const request = { ...session, maxCcu, isMoved };
    const reply = await this.#askForLease(holder, request, this.#withdrawal);
    return this.#acceptReply(holder, request, reply);
  }

  /**
   * Takes a lease for half of a peer.
   * @returns the lease, or the id of the session that it must join instead
   * @throws {PartylineError} as {@link admit} does
   */
  async admitHalf(
    holder: LeaseHolder,
    maxCcu: number,
    half: HalfOfPeer,
  ): Promise<Admission | { elsewhere: string }> {
    const { sessionId } = half.place;
    const request = { sessionId, settings: '', maxCcu, isMoved: false, half };
    // If the reply is lost, nobody will resume this half: its place and settings go with the lease.
    const onFailure = { keepSettingsMs: 0, isWithdrawn: false };
    const reply = await this.#askForLease(holder, request, onFailure);
    if (reply[0] === REFUSED.mustJoin) {
      // Not `parsePlace`: a newer build may have stored a kind that this one does not know.
      const place = JSON.parse(reply[2] ?? '') as { sessionId: string };
      return { elsewhere: place.sessionId };
    }
    const admission = this.#acceptReply(holder, request, reply);
    this.#notes.keep(holder, 'place', JSON.stringify(half.place));
    return admission;
  }

  /** Notes a lease that was granted. @throws {PartylineError} the reason if it was not */
  #acceptReply(
    holder: LeaseHolder,
    { maxCcu, sessionId }: LeaseRequest,
    [admitted, , place, known, stored = '', order = 0]: AdmitReply,
  ): Admission {
    const { accountId } = holder;
    if (admitted === REFUSED.byNewer) throw replaced();
    if (admitted === REFUSED.limitReached) {
      const message = `All ${maxCcu} connections of the account are in use.`;
      throw new PartylineError('ccu_limit', message, { retryAfterMs: this.#timings.retryAfterMs });
    }
    const holders = this.#held.get(accountId) ?? new Map<LeaseHolder, number>();
    this.#held.set(accountId, holders.set(holder, order));
    this.#notes.keep(holder, 'settings', `${sessionId} ${stored}`);
    return {
      lastPlace: parsePlace(place),
      isResumed: known === 1,
      settings: stored,
      order,
    };
  }

  /**
   * Asks Redis for a lease.
   * @param onFailure how to release the lease later, in case Redis grants it after this has timed out
   */
  async #askForLease(
    holder: LeaseHolder,
    request: LeaseRequest,
    onFailure: Release,
  ): Promise<AdmitReply> {
    const { peer, connectionId } = holder;
    const words = [peer, connectionId, ...wordsOf(request, this.#timings.leaseMs)];
    try {
      const options = { keys: keysOfPeer(holder), arguments: words };
      return (await this.#redis.run((client) => client.admitLease(options))) as AdmitReply;
    } catch (fault) {
      this.#releases.add(holder, onFailure);
      throw fault;
    }
  }

  /** Stores the settings of a lease's holder, for when it resumes; if Redis is disconnected, again after the reconnect. */
  async save(holder: LeaseHolder, { sessionId, settings }: StoredSession): Promise<void> {
    if (this.#holds(holder))
      await this.#notes.write(holder, 'settings', `${sessionId} ${settings}`);
  }

  /** Stores the place of a lease's holder, for when it resumes on another node; if Redis is disconnected, again after the reconnect. */
  async savePlace(holder: LeaseHolder, place?: StoredPlace): Promise<void> {
    const text = place ? JSON.stringify(place) : '';
    if (this.#holds(holder)) await this.#notes.write(holder, 'place', text);
  }

  /** Returns the stored place of a peer; undefined if it is in no room. */
  async findPlace({ accountId, peer }: Pick<LeaseHolder, 'accountId' | 'peer'>) {
    const key = leasePlacesKey(accountId);
    const text = await this.#redis.run((client) => client.hGet(key, peer));
    return parsePlace(text);
  }

  async count(accountId: number): Promise<number> {
    const keys = [leaseExpiriesKey(accountId)];
    return Number(await this.#redis.run((client) => client.countLeases({ keys })));
  }

  /** Stops holding a lease that another process takes over; it expires if that process does not. */
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

  /**
   * Stops renewing the lease of a client that may come back: the lease, the place and the settings expire `keepMs` from now. If Redis
   * does not take that, they expire as after a crash.
   */
  async letExpire(holder: LeaseHolder): Promise<void> {
    if (this.#forget(holder)) await this.#letExpire(holder.accountId, [holder]);
  }

  /** Stops renewing. Leases still held are those of kept places: they expire `keepMs` from now, like the places. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#renewals.close();
    this.#notes.close();
    const leaving = [...this.#held].map(([accountId, holders]) =>
      this.#letExpire(accountId, [...holders.keys()]),
    );
    // All at once, so that a Redis that hangs delays the end of this process only once.
    await Promise.all(leaving);
    this.#held.clear();
  }

  async #letExpire(accountId: number, holders: LeaseHolder[]): Promise<void> {
    const pairs = holders.flatMap(({ peer, connectionId }) => [peer, connectionId]);
    const options = { keys: leaseKeys(accountId), arguments: [String(this.#keepMs), ...pairs] };
    await this.#tryTo(accountId, 'expiry of leases not set', () =>
      this.#redis.run((client) => client.letLeasesExpire(options)),
    );
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
      // A renewal under way would put off the expiry that has been set.
      if (this.#isClosed) return;
      // A plan allows 500 leases; Lua takes about 4000 at once.
      const renew = () => this.#renewAll(accountId, [...holders]);
      await this.#tryTo(accountId, 'leases not renewed; retrying', renew);
    }
    // If Redis does not take one of the following, it would not take the others either.
    for (const holder of this.#notes.holders()) {
      const write = () => this.#notes.writeAgain(holder);
      const failure = 'place or settings of a peer not stored; retrying';
      if (!(await this.#tryTo(holder.accountId, failure, write))) break;
    }
    for (const holder of this.#releases.holders()) {
      const release = () => this.#releases.repeat(holder);
      if (!(await this.#tryTo(holder.accountId, 'lease not released; retrying', release))) break;
    }
  }

  /**
   * @param failure log message if Redis does not answer, or refuses
   * @returns false in that case
   */
  async #tryTo(accountId: number, failure: string, work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (fault) {
      this.#faults.warn(this.#log, { err: fault, account: accountId }, failure);
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
      // A connection that held the lease in between may have changed the place and the settings
      // in Redis.
      if (regained?.has(connectionId)) this.#notes.doubt(holder);
    }
  }
}
