import type { Connection } from './connection.ts';
import { Pulse } from './pulse.ts';

/**
 * Gives up the connection of a client in the lobby when it no longer carries anything; in a room
 * `HealthWatch` does so.
 */
export class LobbyWatch {
  #connection: Connection | undefined;
  #pulse: Pulse | undefined;

  /**
   * Checks the connection; called a few times a second.
   * @param connection undefined while the client is not in the lobby
   * @param nowMs current time by `performance.now()`
   */
  look(connection: Connection | undefined, nowMs: number): void {
    if (connection !== this.#connection) {
      this.#connection = connection;
      // A `configure` without effect, which the gateway answers.
      this.#pulse =
        connection && new Pulse(() => connection.request({ type: 'configure', volume: {} }));
    }
    if (!connection || !this.#pulse) return;
    const state = this.#pulse.look('text', connection.heardMs, nowMs);
    if (state === 'lost') connection.fail('The connection went silent.');
  }
}
