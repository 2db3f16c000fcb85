import type { MetricFamilies } from '../http/metrics.ts';
import type { HandedOverClient } from '../admission/handed-over-client.ts';
import type { ToldStates } from './process-states.ts';

/** Messages between the supervisor and its gateway processes, over the channel between parent and child. */

/**
 * From a gateway: it has started, it still runs (and takes clients or not), it could not start, or an operator asked it to
 * drain: all are to. It asks the others for their figures, or answers the one that did; it hands a client over to another,
 * and its connection beside the message.
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
 * To a gateway: let clients leave, and end; another asks for figures; another has answered; which processes take clients, and
 * which hang, at regular intervals and when it changes; another hands a client over, its connection beside the message.
 */
export type ToGateway =
  | { type: 'drain'; withinMs: number; by: string }
  | { type: 'ask metrics'; from: number; question: number }
  | { type: 'metrics'; from: number; question: number; families: MetricFamilies }
  | ({ type: 'processes' } & ToldStates)
  | { type: 'moved'; client: HandedOverClient };
