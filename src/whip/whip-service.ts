import { randomBytes, randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { type Credentials, mayPublish, roomFault } from '../accounts/authenticator.ts';
import { PLANS } from '../accounts/plans.ts';
import type { IceServer } from '../protocol/media-types.ts';
import type { WebRtcOutput } from '../media/listening-router.ts';
import type { WebRtcInput } from '../media/webrtc-input.ts';
import { mediaLost } from '../media/webrtc-leg.ts';
import { mayNotPublish, notFound, PartylineError, replaced } from '../protocol/errors.ts';
import { checkName, checkRoomName, ECHO_ROOM, LOBBY } from '../protocol/names.ts';
import { echoRoomOf } from '../rooms/echo.ts';
import type { RoomLease } from '../rooms/registry.ts';
import type { Room } from '../rooms/room.ts';
import type { SessionOpeningParts } from '../admission/session-opening.ts';
import { type StoredPlace, WHIP_PREFIX } from '../usage/stored-place.ts';
import type { LeaseHolder } from '../usage/lease-holder.ts';
import { RESTART_ICE_COST } from '../session/message-budget.ts';
import { writeAnswer } from './answer.ts';
import { readFragment } from './fragment.ts';
import { Half, type Patched } from './half.ts';
import { type Offer, readOffer, type WhipKind } from './offer.ts';
import { describeInput, takesShortOnly, usedExtensions, wantsSparse } from './rtp-parameters.ts';
import { WhipSession } from './whip-session.ts';

export type WhipServiceParts = Pick<
  SessionOpeningParts,
  | 'leases'
  | 'takeover'
  | 'places'
  | 'quota'
  | 'rooms'
  | 'sessions'
  | 'checkLoad'
  | 'clientLog'
  | 'connections'
  | 'drain'
  | 'accountWatch'
  | 'metrics'
  | 'requestLimits'
> & {
  /** The id of this node. */
  node: string;
  timings: Timings['whip'];
  log: FastifyBaseLogger;
};

/** A POST of a client. */
export type WhipRequest = {
  kind: WhipKind;
  credentials: Credentials;
  room: string;
  peer: string;
  /** WHEP: the only peer that it wants to hear. */
  from: string | undefined;
  sdp: string;
};

/** Answer to a POST. */
export type Created = { id: string; etag: string; sdp: string; iceServers: IceServer[] };

/** Node that has the peer's other half. */
export type Elsewhere = { elsewhere: string };

/** A session, and the sender of a request for it. */
export type SessionName = {
  kind: WhipKind;
  id: string;
  /** Peer of the client's token, if it has one. */
  owner: { accountId: number; peer?: string };
};

/** Cost of a PATCH that restarts nothing, in tokens of the account. */
const FRAGMENT_COST = 1;
/** Length of the node in the id of a session; the rest cannot be guessed. */
const NODE_CHARACTERS = 16;
const SECRET_BYTES = 16;

/** Returns the node of a session, by its id. */
export const nodeOf = (sessionId: string): string => sessionId.slice(0, NODE_CHARACTERS);

/** The clients of WHIP and WHEP whose sessions are on this node. */
export class WhipService {
  readonly #parts: WhipServiceParts;
  /** By session id. */
  readonly #halves = new Map<string, { half: Half; session: WhipSession }>();
  /** Queue of requests of each peer, handled one after the other. */
  readonly #busy = new Map<string, Promise<unknown>>();

  constructor(parts: WhipServiceParts) {
    this.#parts = parts;
  }

  /**
   * Validates a request without any look-up, and reads its offer in turn with other accounts.
   * @throws {PartylineError} `not_found`, `bad_request`, `forbidden`, `unprocessable`, `overloaded`
   */
  async check({ kind, credentials, room, peer, from, sdp }: WhipRequest): Promise<Offer> {
    this.checkDrain();
    this.#parts.checkLoad();
    if (room === LOBBY) throw notFound();
    checkRoomName(room, 'bad_request');
    checkName(peer, 'peer', 'bad_request');
    if (from !== undefined) checkName(from, 'from', 'bad_request');
    const fault = roomFault(credentials, room);
    if (fault) throw fault;
    if (kind === 'whip' && !mayPublish(credentials)) throw mayNotPublish();
    return this.#parts.requestLimits.turns.run(credentials.account.id, () => {
      const offer = readOffer(sdp, kind);
      if (kind === 'whip') describeInput(offer);
      return offer;
    });
  }

  /** @throws {PartylineError} `overloaded` while this node drains */
  checkDrain(): void {
    this.#parts.drain.check();
  }

  /**
   * Returns the node with a session of the same peer and room, to which the other half belongs; undefined if
   * there is none.
   * @throws {PartylineError} `overloaded`
   */
  async findOther({ credentials, room, peer }: WhipRequest): Promise<string | undefined> {
    const accountId = credentials.account.id;
    if (this.#sessionOf(accountId, peer, room)) return undefined;
    const place = await this.#parts.leases.findPlace({ accountId, peer });
    const node = place?.room === room ? nodeOfPlace(place) : undefined;
    return node === this.#parts.node ? undefined : node;
  }

  /**
   * Opens a session, or its other half.
   * @param offer that of the request, as {@link check} has read it
   * @param changesBefore number of account changes received when the credentials were looked up
   * @returns the answer, or another node on which the session must be opened as the other half
   * @throws {PartylineError} any reason to refuse the client; everything acquired is released before
   */
  open(request: WhipRequest, offer: Offer, changesBefore: number): Promise<Created | Elsewhere> {
    return this.#open(request, offer, changesBefore, () => this.#openNew(request, offer, true));
  }

  /** Opens a session like {@link open}, but always here: it replaces one on another node. @throws {PartylineError} */
  openHere(request: WhipRequest, offer: Offer, changesBefore: number): Promise<Created> {
    return this.#open(request, offer, changesBefore, async () => {
      const opened = await this.#openNew(request, offer, false);
      if ('elsewhere' in opened) throw replaced();
      return opened;
    });
  }

  async #open<T>(
    request: WhipRequest,
    offer: Offer,
    changesBefore: number,
    openNew: () => Promise<T>,
  ): Promise<Created | T> {
    const { credentials, peer } = request;
    const { accountWatch } = this.#parts;
    const { id } = credentials.account;
    const opened = await this.#inTurn(`${id}:${peer}`, async () => {
      const session = this.#sessionOf(id, peer, request.room);
      const created = session && (await this.#addHalf(session, request, offer));
      return created ?? openNew();
    });
    // Changes made during the admission have not reached the session.
    if (accountWatch.changes() !== changesBefore) accountWatch.check(id);
    return opened;
  }

  /** @throws {PartylineError} `not_found`, `bad_request`, `unprocessable`, `rate_limited`, or as {@link Half.patch} does */
  async patch(name: SessionName, ifMatch: string | undefined, body: string): Promise<Patched> {
    const { half, session } = this.requireSession(name);
    const { requestLimits } = this.#parts;
    const { account } = session;
    requestLimits.charge(account, FRAGMENT_COST);
    return half.patch(ifMatch, {
      read: () => requestLimits.turns.run(account.id, () => readFragment(body)),
      chargeRestart: () => requestLimits.charge(account, RESTART_ICE_COST),
    });
  }

  /** @throws {PartylineError} `not_found` */
  end(name: SessionName): void {
    const { half, session } = this.requireSession(name);
    session.endHalf(half, 'left');
  }

  /** @throws {PartylineError} `not_found` if there is no such session of this client */
  requireSession({ kind, id, owner }: SessionName): { half: Half; session: WhipSession } {
    const found = this.#halves.get(id);
    const isTheirs =
      found?.half.kind === kind &&
      found.session.account.id === owner.accountId &&
      (owner.peer === undefined || owner.peer === found.session.name);
    if (!isTheirs) throw notFound();
    return found;
  }

  #sessionOf(accountId: number, peer: string, room: string): WhipSession | undefined {
    const session = this.#parts.sessions.get(accountId, peer);
    return session instanceof WhipSession && session.room === room ? session : undefined;
  }

  /** Handles one request of a peer at a time: two that come at once are its two halves. */
  async #inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#busy.get(key) ?? Promise.resolve();
    const done = before.then(work);
    const settled = done.catch(() => {});
    this.#busy.set(key, settled);
    try {
      return await done;
    } finally {
      if (this.#busy.get(key) === settled) this.#busy.delete(key);
    }
  }

  async #openNew(
    request: WhipRequest,
    offer: Offer,
    mayJoin: boolean,
  ): Promise<Created | Elsewhere> {
    const { quota, rooms } = this.#parts;
    const { credentials, room, peer } = request;
    const { account } = credentials;
    await quota.check(account.id, account.plan);
    const name = room === ECHO_ROOM ? echoRoomOf(peer) : room;
    const lease = await rooms.acquire(account.id, name);
    let media: Media | undefined;
    try {
      checkFrom(request, (other) => lease.room.hasPeer(other));
      // Before its lease: a peer whose media cannot be opened keeps the connection that it has.
      media = await this.#openMedia(lease.room, request.kind, offer);
      const admitted = await this.#admit(request, mayJoin);
      if (!('elsewhere' in admitted))
        return await this.#start(request, offer, lease, media, admitted);
      media.close();
      lease.release();
      return admitted;
    } catch (fault) {
      media?.close();
      lease.release();
      throw fault;
    }
  }

  /**
   * Takes a lease of the account's connections.
   * @param mayJoin true to join a session on another node instead of replacing it
   */
  async #admit(
    { credentials: { account }, peer, room }: WhipRequest,
    mayJoin: boolean,
  ): Promise<Admitted | Elsewhere> {
    const { takeover, leases, log, node, drain } = this.#parts;
    const holder = { accountId: account.id, peer, connectionId: randomUUID() };
    const id = `${WHIP_PREFIX}${node}${randomBytes(SECRET_BYTES).toString('hex')}`;
    const { maxCcu } = PLANS[account.plan];
    drain.check();
    const admission = await leases.admitHalf(holder, maxCcu, {
      // With the lease: of two halves that come to two nodes at once, one finds the other.
      place: { sessionId: id, room, kind: 'webrtc' },
      joins: WHIP_PREFIX,
      replaces: mayJoin ? WHIP_PREFIX + node : '',
    });
    if ('elsewhere' in admission) {
      return { elsewhere: nodeOf(admission.elsewhere.slice(WHIP_PREFIX.length)) };
    }
    const { order, lastPlace } = admission;
    const logged = (released: Promise<void>) => {
      released.catch((fault: unknown) => {
        log.warn({ err: fault, peer }, 'lease not released; retrying');
      });
    };
    const release = () => logged(leases.release(holder));
    // The place of a peer that has no other connection is that of this one, and ends with it.
    const withdraw = lastPlace ? () => logged(leases.withdraw(holder)) : release;
    try {
      // A client that this node refuses keeps its other connection, which the announcement would
      // end.
      drain.check();
      takeover.checkNewest(holder, order);
      await takeover.arrived(holder, order);
      return { id, holder, order, isElsewhere: lastPlace !== undefined, release, withdraw };
    } catch (fault) {
      withdraw();
      throw fault;
    }
  }

  async #start(
    request: WhipRequest,
    offer: Offer,
    lease: RoomLease,
    media: Media,
    { id, holder, order, isElsewhere, release, withdraw }: Admitted,
  ): Promise<Created> {
    const { takeover, connections, drain, metrics, places, sessions, timings } = this.#parts;
    const { credentials, peer: name, room } = request;
    const { account } = credentials;
    const fields = { account: account.id, peer: name, room };
    const log = this.#parts.clientLog.of(account, this.#parts.log.child(fields));
    try {
      drain.check();
      takeover.checkNewest(holder, order);
    } catch (fault) {
      withdraw();
      throw fault;
    }
    const session: WhipSession = new WhipSession(lease, {
      id,
      connectionId: holder.connectionId,
      order,
      credentials,
      peer: name,
      room,
      timeouts: { connectWithinMs: timings.connectWithinMs, resumeMs: places.keepMs },
      log,
      onHalf: (half) => this.#halves.set(half.id, { half, session }),
      onHalfEnded: (half) => this.#halves.delete(half.id),
      onClosed: (reason) => {
        metrics.ended(reason);
        connections.ended(credentials.account, reason, performance.now());
        sessions.delete(session);
        release();
      },
    });
    let created: Created;
    try {
      sessions.add(session);
      metrics.admitted();
      session.start();
      places.take(credentials.account.id, name)?.end('moved');
      created = await this.#takeIn(session, media, request, offer);
    } catch (fault) {
      // It releases its leases.
      session.fail(fault);
      throw fault;
    }
    if (isElsewhere) {
      takeover.settled(holder, order, room).catch((fault: unknown) => {
        log.warn({ err: fault }, 'move of the peer not announced');
      });
    }
    return created;
  }

  /** @returns undefined if the session was ended meanwhile by its client or with its media */
  async #addHalf(
    session: WhipSession,
    request: WhipRequest,
    offer: Offer,
  ): Promise<Created | undefined> {
    checkFrom(request, (other) => session.mediaRoom.hasPeer(other));
    let media: Media | undefined;
    try {
      media = await this.#openMedia(session.mediaRoom, request.kind, offer);
      this.#parts.drain.check();
    } catch (fault) {
      media?.close();
      // The media of a room closes with its last peer.
      if (!session.isClosed) throw fault;
    }
    if (media && !session.isClosed) return this.#takeIn(session, media, request, offer);
    media?.close();
    if (session.endFault) throw session.endFault;
    return undefined;
  }

  #openMedia(room: Room, kind: WhipKind, offer: Offer): Promise<Media> {
    const { dtls: dtlsParameters, opus } = offer;
    const { consentMs } = this.#parts.timings;
    const options = { dtlsParameters, consentMs };
    if (kind === 'whep') return room.media.openOutput(opus.payloadType, options);
    return room.media.openInput({ ...options, rtpParameters: describeInput(offer) });
  }

  /** Adds an opened half to the session, or closes it. */
  async #takeIn(
    session: WhipSession,
    media: Media,
    { kind, credentials, from }: WhipRequest,
    offer: Offer,
  ): Promise<Created> {
    try {
      const id = `${this.#parts.node}${randomBytes(SECRET_BYTES).toString('hex')}`;
      const half = new Half(id, kind, offer, credentials, media.path);
      const { etag } = half;
      // Before the session has the half, because a client without an answer cannot end it.
      const extensions = kind === 'whip' ? usedExtensions(offer) : [];
      const stream = 'feed' in media ? media.stream : undefined;
      const sdp = writeAnswer(offer, kind, media.path, extensions, stream);
      const iceServers = session.mediaRoom.iceServers.for(id.slice(-ICE_NAME_CHARACTERS));
      if ('feed' in media) {
        const isSparse = wantsSparse(offer);
        session.hearBy(half, media, { from, takesShortOnly: takesShortOnly(offer), isSparse });
      } else {
        await session.speakBy(half, media);
      }
      // Ended while the others did not hear it yet.
      if (!session.has(half)) throw session.endFault ?? mediaLost(undefined);
      return { id, etag, sdp, iceServers };
    } catch (fault) {
      media.close();
      throw fault;
    }
  }
}

type Media = WebRtcInput | WebRtcOutput;

type Admitted = {
  id: string;
  holder: LeaseHolder;
  order: number;
  /** True if the peer had another connection, which this one takes over. */
  isElsewhere: boolean;
  release: () => void;
  /** Releases the lease of a client that is refused, so that an attempt that fails changes nothing. */
  withdraw: () => void;
};

/** Characters of a session id at the end of a TURN user's name: a peer's name may not fit into a header. */
const ICE_NAME_CHARACTERS = 8;

/** Returns the node of a place of WHIP or WHEP; undefined for other places. */
const nodeOfPlace = ({ sessionId }: StoredPlace): string | undefined =>
  sessionId.startsWith(WHIP_PREFIX) ? nodeOf(sessionId.slice(WHIP_PREFIX.length)) : undefined;

/** @throws {PartylineError} `not_found` if the only peer that a client wants to hear is not in the room */
function checkFrom({ from }: WhipRequest, isInRoom: (peer: string) => boolean): void {
  if (from !== undefined && !isInRoom(from)) {
    throw new PartylineError('not_found', `There is no peer "${from}" in the room.`);
  }
}
