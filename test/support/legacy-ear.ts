import type { TestClient } from './client.ts';
import type { Heard } from './rising-tone.ts';
import { decodeOpus } from './sound.ts';

/** Records the Opus packets that a client is sent, and when they come. */
export class LegacyEar {
  readonly #client: TestClient;
  #packets: { wallMs: number; packet: Buffer }[] = [];

  constructor(client: TestClient) {
    this.#client = client;
    client.onFrame = (packet) => {
      if (packet.length > 0) this.#packets.push({ wallMs: Date.now(), packet });
    };
  }

  /** Records from now on. */
  start(): void {
    this.#packets = [];
  }

  /** When the first packet since `start()` came, Unix time in ms; awaits it. */
  soundedMs(): Promise<number> {
    return this.#client.until('sound', () => this.#packets[0]?.wallMs, 30_000);
  }

  /** @returns what came since `start()`, put together, and the longest time between two packets beyond their length, ms */
  stop(): Promise<Heard & { gapMs: number }> {
    return this.end()();
  }

  /** Ends what `start()` began. @returns what decodes it, and tells as much as `stop()` */
  end(): () => Promise<Heard & { gapMs: number }> {
    const packets = this.#packets.splice(0);
    return async () => {
      const samples = await decodeOpus(packets.map(({ packet }) => packet));
      const waitsMs = packets.slice(1).map(({ wallMs }, i) => wallMs - packets[i]!.wallMs - 20);
      return { samples, rateHz: 48_000, gapMs: Math.max(0, ...waitsMs) };
    };
  }
}
