import { hash } from 'node:crypto';
import type { Socket } from 'node:net';
import type { HandoverTargets, HandedOverClient } from '../admission/handed-over-client.ts';

/** Sends a message to the supervisor, with a connection that is to go on. */
type Send = (to: number, client: HandedOverClient, connection: Socket) => void;

/** The processes that listen on the same port, this one among them, as this one knows them. */
export class OtherProcesses implements HandoverTargets {
  readonly move: Send;
  readonly #own: number;
  /** Those that take clients; all, as long as nobody has said so. */
  #open: readonly number[];

  /**
   * @param own which of them this one is
   * @param others how many there are beside it
   */
  constructor(own: number, others: number, move: Send) {
    this.#own = own;
    this.#open = Array.from({ length: others + 1 }, (_, index) => index);
    this.move = move;
  }

  /** Told by the supervisor, all processes at about the same time. */
  setOpen(processes: readonly number[]): void {
    this.#open = processes;
  }

  processOf(accountId: number, room: string): number | undefined {
    const home = processOf(`${accountId}:${room}`, this.#open);
    return home === this.#own ? undefined : home;
  }
}

/**
 * Which of some processes a room is in: the same whoever asks, with no word between them; and as one goes or comes, only rooms
 * that are in it move (rendezvous hashing, Thaler and Ravishankar 1998). Undefined if there are none.
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
