import { fileURLToPath } from 'node:url';
import { Child } from './child.ts';
import { cpuMs } from './process-stats.ts';
import type { Scenario } from './scenario.ts';

const RELAY = fileURLToPath(new URL('./floor-relay.ts', import.meta.url));
const ECHO = fileURLToPath(new URL('./floor-echo.ts', import.meta.url));

/**
 * Lower bound of the cost of the traffic: a relay in place of the gateway, and an echo in place of the media
 * worker.
 */
export class FloorProcess implements AsyncDisposable {
  readonly #relay: Child;
  readonly #echo: Child;
  readonly #url: string;

  private constructor(relay: Child, echo: Child, url: string) {
    this.#relay = relay;
    this.#echo = echo;
    this.#url = url;
  }

  static async start(scenario: Scenario): Promise<FloorProcess> {
    const echo = new Child('the echo', [process.execPath, ECHO]);
    try {
      const { port } = await echo.ready();
      const args = [RELAY, JSON.stringify(scenario), String(port)];
      const relay = new Child('the relay', [process.execPath, ...args]);
      try {
        const { url } = await relay.ready();
        return new FloorProcess(relay, echo, String(url));
      } catch (fault) {
        await relay.stop();
        throw fault;
      }
    } catch (fault) {
      await echo.stop();
      throw fault;
    }
  }

  address(room: number, peer: number): URL {
    return new URL(`/?room=${room}&peer=${peer}`, this.#url);
  }

  /** Returns the CPU time of the relay; that of the echo is not counted, as that of the media worker is not. */
  cpuMs(): { main: number; mediaWorkers: number } {
    return { main: cpuMs(this.#relay.pid), mediaWorkers: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#relay.stop(), this.#echo.stop()]);
  }
}
