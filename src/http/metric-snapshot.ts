import type { Counters } from '../counters.ts';
import type { LoadLevel, LoadSample } from '../load/load-level.ts';
import type { ResourceState } from '../load/reserves.ts';
import type { PeerKind } from '../protocol/messages.ts';
import type { Resource } from '../resources.ts';

/** Work that waits for the usage workers, of all nodes. */
type Backlog = {
  /** Minutes of accounts that wait to be closed. */
  openMinutes: number;
  /** Time since the end of the oldest of these minutes; 0 if none waits. */
  oldestOpenMinuteMs: number;
  /** Jobs that close minutes. */
  waitingJobs: number;
  /** Webhook events that wait to be sent, the age of the oldest, and events that were given up. */
  webhooks: { rooms: number; events: number; oldestMs: number; dropped: number };
  workers: { alive: number; maxOffsetMs: number };
};

/** State of a gateway process at the moment of a scrape. */
export type Snapshot = {
  /** Version of Partyline. */
  version: string;
  sessions: number;
  rooms: number;
  peers: Record<PeerKind, number>;
  keptPlaces: number;
  /** True if it admits new clients, as `/readyz` tells. */
  isReady: boolean;
  /** True once it drains. */
  isDraining: boolean;
  /** Number of living nodes, as this node sees them. */
  nodes: number;
  /** Number of other nodes with which this node has no address family in common, so that no pipe can be opened. */
  unreachableNodes: number;
  /** Number of other nodes that receive none of the audio that is sent to them. */
  silentNodes: number;
  /** Names of the processes of this group that hang, and the number of its gateways that died. */
  processes: { readonly hung: string[]; readonly deaths: number };
  /** Connected ends of pipes to other nodes. */
  pipes: { ends: number };
  /** Connections to other nodes for messages of unknown formats. */
  relays: number;
  counters: Counters;
  load: LoadSample & { level: LoadLevel };
  encoderComplexity: number;
  resources: Record<Resource, ResourceState>;
  mixThreads: number;
  /** Contents of the jitter buffers of mixed speakers. */
  jitterBuffers: { speakers: number; sumMs: number; maxMs: number };
  mediaWorkers: { state: 'running' | 'replacing'; restarts: number }[];
  /** Clock of this machine, relative to that of Redis: how far it is ahead, and how often Redis's has jumped. */
  clock: { offsetMs: number; jumps: number };
  /** Waiting work; undefined while Redis is disconnected. */
  backlog: Backlog | undefined;
};

/** Value of a metric: a number, one for each value of its label, or undefined if it is not known. */
export type Figure = number | Record<string, number> | undefined;

/** A metric that is set at each scrape. */
export type Definition = {
  kind: 'gauge' | 'count';
  /** Without the prefix `partyline_`. */
  name: string;
  help: string;
  read: (snapshot: Snapshot) => Figure;
  /** Name of its label, if it has one. */
  label: string | undefined;
};

type Define = (
  name: string,
  help: string,
  read: (snapshot: Snapshot) => Figure,
  label?: string,
) => Definition;

/** Defines a value that rises and falls. */
export const gauge: Define = (name, help, read, label) => ({
  kind: 'gauge',
  name,
  help,
  read,
  label,
});

/** Defines a value that only rises, and is counted elsewhere. */
export const count: Define = (name, help, read, label) => ({
  kind: 'count',
  name,
  help,
  read,
  label,
});
