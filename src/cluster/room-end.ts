import type { ListenAddress } from '../../config/listen-addresses.ts';
import type { Timings } from '../../config/timings.ts';
import type { NodePipe } from '../media/node-pipe.ts';
import type { RoomState } from './room-state.ts';

/** A room on this node, as its pipes to other nodes see it. */
export type RoomEnd = {
  /** Id of this node. */
  readonly node: string;
  /** Peers of this node's producers, by the id of the producer. */
  readonly producers: ReadonlyMap<string, string>;
  /** Returns whether a producer of this node has been announced, so that it may send. */
  isRunning(producerId: string): boolean;
  /** True while this node has peers in the room, and a router for it. */
  readonly isOpen: boolean;
  /** Returns the address at which this node receives from a node with these address families; undefined if there is none in common. */
  addressFor(families: RoomState['families']): ListenAddress | undefined;
  openPipe(address: ListenAddress): Promise<NodePipe>;
  /** Called when this node's end of a pipe has changed, so that the state of the room must be written. */
  changed(): void;
  /**
   * Called when a producer of another node has been piped to this one.
   * @param isRunning returns true if its first packets may be from the middle of a stream
   */
  heard(peer: string, producerId: string, isRunning: () => boolean): Promise<void>;
  /** Called when such a producer has ended. */
  unheard(producerId: string): void;
  /** Called at each check of a pipe to a node. @param isSilent true if the node receives nothing of what is sent to it */
  noteSilent(node: string, isSilent: boolean): void;
  /** Logs a fault of a pipe, which other rooms may have at the same time. */
  warn(fields: object, message: string): void;
  readonly timings: Timings['pipes'];
};
