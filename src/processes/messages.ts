import type { MetricFamilies } from '../app.ts';

/** What the supervisor and its gateway processes say to each other, over the channel between parent and child. */

/** A gateway that takes clients says so again and again: one that hangs does not. */
export const ALIVE_EVERY_MS = 1000;

/**
 * From a gateway: it takes clients, it still runs, it could not start, or an operator asked it to drain: all are to. It asks
 * the others for their figures, or answers the one that did.
 */
export type FromGateway =
  | { type: 'ready'; url: string }
  | { type: 'alive' }
  | { type: 'failed'; reason: string }
  | { type: 'drain'; withinMs: number }
  | { type: 'ask metrics'; question: number }
  | { type: 'metrics'; to: number; question: number; families: MetricFamilies };

/** To a gateway: let clients leave, and end; another asks for figures; another has answered. */
export type ToGateway =
  | { type: 'drain'; withinMs: number }
  | { type: 'ask metrics'; from: number; question: number }
  | { type: 'metrics'; from: number; question: number; families: MetricFamilies };
