import { randomUUID } from 'node:crypto';

/**
 * Names of a node for webhooks, one after the other: an id, a colon and a number. `scripts/webhooks/tell.lua` knows by the
 * id that two names are those of one node.
 */
export class NodeNames {
  readonly #id = randomUUID();
  #last = 0;

  /** Returns a name that the node has not had yet. */
  next(): string {
    this.#last += 1;
    return `${this.#id}:${this.#last}`;
  }
}
