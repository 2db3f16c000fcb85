/** What the supervisor and its gateway processes say to each other, over the channel between parent and child. */

/** From a gateway: it takes clients, it could not start, or an operator asked it to drain: all are to. */
export type FromGateway =
  | { type: 'ready'; url: string }
  | { type: 'failed'; reason: string }
  | { type: 'drain'; withinMs: number };

/** To a gateway: let clients leave, and end. */
export type ToGateway = { type: 'drain'; withinMs: number };
