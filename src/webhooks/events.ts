import { randomUUID } from 'node:crypto';
import type { LeaveReason, PeerKind } from '../protocol/messages.ts';

/** Fields of each webhook event (docs/operations/accounts.md, "Webhooks"), beside those that all events have. */
type WebhookNews =
  | { type: 'room_started' | 'room_ended'; room: string }
  | { type: 'peer_joined'; room: string; peer: string; kind: PeerKind }
  | { type: 'peer_left'; room: string; peer: string; kind: PeerKind; reason: LeaveReason }
  | { type: 'quota_exhausted'; resets_at: string };

/** The body of a webhook. Its id stays the same at each attempt to send it. */
export type WebhookEvent = WebhookNews & { id: string; created_at: string; account_id: number };

/** Sequence of events: those of a room, or (`room` is empty) those of the account itself. */
export type WebhookRoom = { accountId: number; room: string };

/** A peer in a room, as the node of its connection knows it. */
export type PresentPeer = WebhookRoom & { peer: string; kind: PeerKind };

/** A change of state, with the events that are due if it is new. */
export type Change =
  | (PresentPeer & { op: 'leave'; peerEvent: WebhookEvent; roomEvent: WebhookEvent })
  /** Join of a peer. `endEvent` is sent first if the peer had left in the meantime and the room has no other peer. */
  | (PresentPeer & {
      op: 'join';
      peerEvent: WebhookEvent;
      roomEvent: WebhookEvent;
      endEvent: WebhookEvent;
    })
  /** An event that is sent only once for each key, until `keptUntilMs`. */
  | (WebhookRoom & { op: 'once'; key: string; keptUntilMs: number; event: WebhookEvent });

/** Returns the change of a peer that entered a room. @param wallMs time of the entry, ms since 1970 */
export function joined(present: PresentPeer, wallMs: number): Change {
  const { accountId, room, peer, kind } = present;
  return {
    ...present,
    op: 'join',
    peerEvent: eventOf(accountId, wallMs, { type: 'peer_joined', room, peer, kind }),
    roomEvent: eventOf(accountId, wallMs, { type: 'room_started', room }),
    endEvent: eventOf(accountId, wallMs, { type: 'room_ended', room }),
  };
}

/** Returns the change of a peer that left a room. @param wallMs time of the leave, ms since 1970 */
export function left(present: PresentPeer, reason: LeaveReason, wallMs: number): Change {
  const { accountId, room, peer, kind } = present;
  return {
    ...present,
    op: 'leave',
    peerEvent: eventOf(accountId, wallMs, { type: 'peer_left', room, peer, kind, reason }),
    roomEvent: eventOf(accountId, wallMs, { type: 'room_ended', room }),
  };
}

/**
 * Returns the change of an account whose minutes are used up until a time (ISO 8601).
 * @param wallMs time of the change, ms since 1970
 */
export function exhausted(accountId: number, resetsAt: string, wallMs: number): Change {
  return {
    op: 'once',
    accountId,
    room: '',
    key: `exhausted:${accountId}:${resetsAt}`,
    // A node whose clock is behind may report it a little later.
    keptUntilMs: Date.parse(resetsAt) + 86_400_000,
    event: eventOf(accountId, wallMs, { type: 'quota_exhausted', resets_at: resetsAt }),
  };
}

const eventOf = (accountId: number, wallMs: number, news: WebhookNews): WebhookEvent => ({
  id: `evt_${randomUUID()}`,
  created_at: new Date(wallMs).toISOString(),
  account_id: accountId,
  ...news,
});
