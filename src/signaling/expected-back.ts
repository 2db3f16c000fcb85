import type { LeaveReason } from '../protocol/messages.ts';

/** What a client closes with when it means to go (RFC 6455 §7.4.1): normal, going away, without a word. */
const MEANT_CLOSES = new Set([1000, 1001, 1005]);
/** Codes from here on are the client's own (§7.4.2). */
const FIRST_OWN_CLOSE = 3000;
/** With this one of them it gives up a connection that seems dead, to make another. */
const OWN_GIVEN_UP = 4408;
/** After these faults, of which the gateway has told it, the client reconnects (docs/protocol.md, "Errors on the WebSocket"). */
const RECONNECTS_AFTER = new Set<LeaveReason>([
  'heartbeat_timeout',
  'slow_consumer',
  'draining',
  'replaced',
]);

/** Whether a client may come back to its place whose socket was closed with this code, by itself or by the network. */
export const mayComeBackAfterClose = (code: number): boolean =>
  code === OWN_GIVEN_UP || (!MEANT_CLOSES.has(code) && code < FIRST_OWN_CLOSE);

/** Whether a client may come back to its place that the gateway has closed for this reason. */
export const mayComeBackAfterFault = (reason: LeaveReason): boolean => RECONNECTS_AFTER.has(reason);
