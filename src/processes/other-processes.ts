import { hash } from 'node:crypto';
import type { Socket } from 'node:net';
import type { HandoverTargets, HandedOverClient } from '../admission/handed-over-client.ts';

/** Sends a message to the supervisor, with the connection to hand over. */
type Send = (to: number, client: HandedOverClient, connection: Socket) => void;

/** The processes that listen on the same port, including this one, as this one knows them. */
export class OtherProcesses implements HandoverTargets {
  readonly move: Send;
  readonly #own: number;
  /** Processes that admit clients; all, until the supervisor has reported them. */
  #open: readonly number[];

  /**
   * @param own number of this process
   * @param others number of other processes
   */
  constructor(own: number, others: number, move: Send) {
    this.#own = own;
    this.#open = Array.from({ length: others + 1 }, (_, index) => index);
    this.move = move;
  }

  /** Updates the list from the supervisor, which tells all processes at about the same time. */
  setOpen(processes: readonly number[]): void {
    this.#open = processes;
  }

  processOf(accountId: number, room: string): number | undefined {
    const home = processOf(`${accountId}:${room}`, this.#open);
    return home === this.#own ? undefined : home;
  }
}

/**
 * Returns the home of a room among some processes, which all compute alike without communication; when a
 * process ends or starts, only rooms of that process move (rendezvous hashing, Thaler and Ravishankar 1998).
 * Undefined if there are no processes.
 */
export function processOf(room: string, processes: readonly number[]): number | undefined {
  let home: number | undefined;
  let highest = '';
  for (const index of processes) {
    const weight = hash('sha1', `${index} ${room}`);
    if (weight <= highest) continue;
    highest = weight;
    home = index;
  }
  return home;
}
