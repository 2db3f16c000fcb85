import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { Settings } from '../../config/settings.ts';
import type { Timings } from '../../config/timings.ts';
import type { DemoAccount } from '../accounts/demo-account.ts';
import type { MetricFamilies } from '../http/metrics.ts';
import type { HandoverTargets, HandedOverClient } from '../admission/handed-over-client.ts';

/** A running gateway. */
export type App = {
  log: FastifyBaseLogger;
  url: string;
  demo: DemoAccount | undefined;
  /** Open sessions and rooms; all 0 when nobody is connected. */
  counts(): { sessions: number; rooms: number };
  /** Number of routers that the media workers themselves know of. */
  countRouters(): Promise<number>;
  mediaWorkerPids(): number[];
  /** The metrics of this process. */
  readMetrics(): Promise<MetricFamilies>;
  /** Returns whether new clients are admitted at the moment. */
  takesClients(): boolean;
  /** Continues with a client that another process on the same port has handed over. */
  takeOver(client: HandedOverClient, connection: Socket): void;
  /** Stops accepting connections; open ones stay open. */
  stopListening(): void;
  /**
   * Admits no new clients and asks all to leave; closes when they have left or `withinMs` (by default DRAIN_MS) is over.
   * @param by requester, for the log
   */
  leave(withinMs?: number, by?: string): Promise<void>;
  /** Ends every session before it returns, then closes every part, in the reverse of the order in which they were opened. */
  close(): Promise<void>;
};

/** Names of the processes of this group that hang, and the number of its gateway processes that died. */
export type ProcessesHealth = { readonly hung: string[]; readonly deaths: number };

/** Everything that a gateway which shares its port with others needs beyond its settings. */
export type Shared = {
  /** Distinguishes its log lines and metrics from those of the others. */
  name: string;
  /** Number of gateway processes of this group. */
  processes: number;
  /** Decides which process is the home of a room. */
  homes: HandoverTargets;
  /** Drains the whole group on request of an operator. */
  drainAll(withinMs: number, by: string): void;
  /** Returns the metrics of the other processes that answer. */
  readOtherMetrics(): Promise<MetricFamilies[]>;
  /** Health of all processes of the group and of the supervisor. */
  health: ProcessesHealth;
};

/** Everything that is needed to open a part. */
export type Opening = {
  settings: Settings;
  timings: Timings;
  log: FastifyBaseLogger;
  /** Parts are adopted as they are opened, and closed in the reverse order. */
  opened: AsyncDisposableStack;
  /** Undefined for a gateway that does not share its port. */
  shared: Shared | undefined;
  /** Aborts the wait for Redis. */
  abort: AbortSignal | undefined;
};
