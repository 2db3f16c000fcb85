import type { Connection } from './connection.ts';
import { Pulse } from './pulse.ts';

/** Gives up the connection of a client in the lobby when it carries nothing any more; in a room its sound is watched, too. */
export class LobbyWatch {
  #connection: Connection | undefined;
  #pulse: Pulse | undefined;

  /**
   * Looks how the connection does; called a few times a second.
   * @param connection undefined while the client is not in the lobby
   * @param nowMs of `performance.now()`
   */
  look(connection: Connection | undefined, nowMs: number): void {
    if (connection !== this.#connection) {
      this.#connection = connection;
      // A request without effect that is answered.
      this.#pulse =
        connection && new Pulse(() => connection.request({ type: 'configure', volume: {} }));
    }
    if (!connection || !this.#pulse) return;
    const state = this.#pulse.look('text', connection.heardMs, nowMs);
    if (state === 'lost') connection.fail('The connection went silent.');
  }
}
