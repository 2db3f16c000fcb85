import { randomUUID } from 'node:crypto';
import { type AudioSettings, parseSettings } from '../session/audio-settings.ts';
import type { Session } from '../session/session.ts';
import { readSummary } from '../usage/summary.ts';
import { addSession } from './add-session.ts';
import type { HandedOverClient } from './handed-over-client.ts';
import { placeToResume, restrict } from './resume-place.ts';
import type { KnownClient, SessionOpeningParts } from './session-opening.ts';
import { type Ids, type Lease, takeLease } from './take-lease.ts';

/** A client that has just connected. */
export type NewClient = KnownClient & {
  /** Room that the client asks to join. */
  room: string;
  /** Network of its address (`networkOf`). */
  network: string;
  /** Session that the client resumes. */
  resumedId: string | undefined;
  /** Number of account changes received when its credentials were looked up. */
  changesBefore: number;
};

/**
 * Gives a client a session, and with it a place among the account's connections.
 * @throws {PartylineError} any reason to refuse the client; everything acquired is released before
 */
export async function openSession(client: NewClient, parts: SessionOpeningParts): Promise<void> {
  const { takeover, leases, usage } = parts;
  const { account } = client.credentials;
  const ids = { sessionId: client.resumedId ?? randomUUID(), connectionId: randomUUID() };
  // A peer that replaces itself takes over its own lease: its release by the old connection has no
  // effect.
  const lease = await takeLease(client, ids, leases, false);
  try {
    const wallMs = parts.clock.wallMs();
    const { total_minutes: _used, ...limits } = await readSummary(usage, leases, account, wallMs);
    // A client that this node refuses keeps its connection to another node, which the announcement
    // would end; one that is refused during the announcement (a drain begins) loses it.
    parts.drain.check();
    takeover.checkNewest(lease.holder, lease.order);
    if (isGone(client)) return lease.withdraw();
    await takeover.arrived(lease.holder, lease.order, client.credentials.grant);
    // Redis answers all clients that connect at once in the same turn of the event loop.
    await parts.requestLimits.turns.run(account.id, () => start(client, ids, lease, limits, parts));
  } catch (fault) {
    lease.withdraw();
    throw fault;
  }
}

/** Returns whether the connection of a client was lost during its admission. */
const isGone = ({ socket }: KnownClient): boolean => socket.readyState !== socket.OPEN;

/** Creates and starts the session of a client that has its lease. @throws {PartylineError} if its peer has a newer connection, or this node drains */
function start(
  client: NewClient,
  ids: Ids,
  lease: Lease,
  limits: Parameters<Session['start']>[0],
  parts: SessionOpeningParts,
): void {
  const { sessions, places, takeover, accountWatch } = parts;
  const { query, credentials, resumedId } = client;
  const { account } = credentials;
  const { peer } = query;
  if (isGone(client)) return lease.withdraw();
  takeover.checkNewest(lease.holder, lease.order);
  // Clients that were connected when a drain began have been asked to leave already.
  parts.drain.check();
  const live = sessions.get(account.id, peer);
  const before = live && { sessionId: live.id, settings: live.settings };
  sessions.replace(account.id, peer);
  const settings = settingsOf(ids, lease, before ?? places.get(account.id, peer)?.place);
  const { session, receive } = addSession(client, ids, { ...lease, settings }, parts, true);
  const isSilenced = restrict(places.get(account.id, peer), credentials, limits.remaining_minutes);
  const place = placeToResume(resumedId, lease.lastPlace, places.get(account.id, peer));
  const room = session.start(limits, client, lease.isResumed || place ? { place } : undefined);
  if (room !== undefined) receive(Buffer.from(JSON.stringify({ type: 'join', room })), false);
  if (isSilenced) session.refuseToPublish();
  // Changes made during the admission have not reached the session.
  if (accountWatch.changes() !== client.changesBefore) accountWatch.check(account.id);
}

/**
 * Continues with a client that another process has handed over.
 * @throws {PartylineError} any reason to refuse the client; everything acquired is released before
 */
export async function takeOverSession(
  client: KnownClient,
  { sessionId, connectionId, unread }: HandedOverClient,
  parts: SessionOpeningParts,
): Promise<void> {
  const ids = { sessionId, connectionId };
  const lease = await takeLease(client, ids, parts.leases, true);
  try {
    if (isGone(client)) return lease.withdraw();
    parts.takeover.checkNewest(lease.holder, lease.order);
    parts.drain.check();
    const settings = settingsOf(ids, lease, undefined);
    const { session, receive } = addSession(client, ids, { ...lease, settings }, parts, false);
    session.log.info('session taken over');
    for (const { data, isBinary } of unread.messages) receive(data, isBinary);
    // Changes made during the handover have not reached the session.
    parts.accountWatch.check(client.credentials.account.id);
  } catch (fault) {
    lease.withdraw();
    throw fault;
  }
}

/**
 * Returns the settings with which a session continues; undefined if those of the client's query apply.
 * @param here settings of the peer's session in this process: complete, where Redis stores only a part
 */
function settingsOf(
  { sessionId }: Ids,
  { isResumed, settings }: Lease,
  here: { sessionId: string; settings: AudioSettings } | undefined,
): AudioSettings | undefined {
  if (here?.sessionId === sessionId) return here.settings;
  return isResumed ? parseSettings(settings) : undefined;
}
