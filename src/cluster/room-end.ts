import type { FastifyBaseLogger } from 'fastify';
import type { ListenAddress } from '../../config/listen-addresses.ts';
import type { Timings } from '../../config/timings.ts';
import type { NodePipe } from '../media/node-pipe.ts';
import type { RoomState } from './room-state.ts';

/** This node's side of a room: its producers, and its handling of those of other nodes. */
export type RoomEnd = {
  /** The id of this node. */
  readonly node: string;
  /** Producers of this node: id → peer. */
  readonly producers: ReadonlyMap<string, string>;
  /** Returns whether a producer of this node has been announced, so that it may send. */
  isRunning(producerId: string): boolean;
  /** True while this node has anybody in the room, and a router for it. */
  readonly isOpen: boolean;
  /** Returns where this node receives from one that has these families; undefined if no pipe can lead there. */
  addressFor(families: RoomState['families']): ListenAddress | undefined;
  openPipe(address: ListenAddress): Promise<NodePipe>;
  /** Called when this node's end has changed and must be announced. */
  changed(): void;
  /** @param isRunning returns true if the first packets of the producer may be from the middle of a stream */
  heard(peer: string, producerId: string, isRunning: () => boolean): Promise<void>;
  unheard(producerId: string): void;
  /** Called at each check of a pipe to a node, with whether nothing comes back over it. */
  noteSilent(node: string, isSilent: boolean): void;
  readonly log: FastifyBaseLogger;
  readonly timings: Timings['pipes'];
};
