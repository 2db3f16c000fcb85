import type { MetricFamilies } from '../http/metrics.ts';
import type { HandedOverClient } from '../admission/handed-over-client.ts';
import type { ToldStates } from './process-states.ts';

/** Messages between the supervisor and its gateway processes, over the channel between parent and child. */

/**
 * Messages from a gateway: it has started, it still runs (and admits clients or not), it could not start, or
 * an operator asked it to drain, which all must do. It asks the others for their metrics, or answers such a
 * request; it hands a client over to another, with the connection beside the message.
 */
export type FromGateway =
  | { type: 'ready'; url: string }
  | { type: 'alive'; takesClients: boolean }
  | { type: 'failed'; reason: string }
  | { type: 'drain'; withinMs: number; by: string }
  | { type: 'ask metrics'; question: number }
  | { type: 'metrics'; to: number; question: number; families: MetricFamilies }
  | { type: 'move'; to: number; client: HandedOverClient };

/**
 * Messages to a gateway: drain and end; another process asks for metrics; another has answered; which
 * processes admit clients, and which hang, at regular intervals and on changes; another hands a client over,
 * with the connection beside the message.
 */
export type ToGateway =
  | { type: 'drain'; withinMs: number; by: string }
  | { type: 'ask metrics'; from: number; question: number }
  | { type: 'metrics'; from: number; question: number; families: MetricFamilies }
  | ({ type: 'processes' } & ToldStates)
  | { type: 'moved'; client: HandedOverClient };
