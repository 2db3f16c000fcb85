/** What the supervisor and its gateway processes say to each other, over the channel between parent and child. */

/** A gateway that takes clients says so again and again: one that hangs does not. */
export const ALIVE_EVERY_MS = 1000;

/** From a gateway: it takes clients, it still runs, it could not start, or an operator asked it to drain: all are to. */
export type FromGateway =
  | { type: 'ready'; url: string }
  | { type: 'alive' }
  | { type: 'failed'; reason: string }
  | { type: 'drain'; withinMs: number };

/** To a gateway: let clients leave, and end. */
export type ToGateway = { type: 'drain'; withinMs: number };
