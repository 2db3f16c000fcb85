import { CLOSE_CODES } from '../protocol/close-codes.ts';
import type { LeaveReason } from '../protocol/messages.ts';

/** Close codes of a client that means to leave (RFC 6455 §7.4.1): normal, going away, no code. */
const MEANT_CLOSES = new Set([1000, 1001, 1005]);
/** First of the codes that a client defines itself (§7.4.2). */
const FIRST_OWN_CLOSE = 3000;
/** Code with which a client gives up a connection that seems dead, to make another. */
const OWN_GIVEN_UP = CLOSE_CODES.heartbeat_timeout;
/** Faults after which the client reconnects (docs/protocol.md, "Errors on the WebSocket"). */
const RECONNECTS_AFTER = new Set<LeaveReason>([
  'heartbeat_timeout',
  'slow_consumer',
  'draining',
  'replaced',
]);

/** Returns true if a client keeps its place after the client or the network closed its socket with this code. */
export const mayComeBackAfterClose = (code: number): boolean =>
  code === OWN_GIVEN_UP || (!MEANT_CLOSES.has(code) && code < FIRST_OWN_CLOSE);

/** Returns true if a client keeps its place after the gateway closed its connection for this reason. */
export const mayComeBackAfterFault = (reason: LeaveReason): boolean => RECONNECTS_AFTER.has(reason);
