import { FrameClock } from '../../src/audio/clock.ts';
import type { Codecs } from '../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../src/audio/format.ts';
import { MixHost } from '../../src/audio/mixing/mix-host.ts';
import { type Listener, Mixer } from '../../src/audio/mixing/mixer.ts';
import { opusPacketSamples } from '../../src/audio/opus-packet.ts';
import type { MediaPacket } from '../../src/rtp/packet.ts';

/** A mixer on a clock of its own: what happens in half an hour takes seconds, and the same every time. */

const TICK_MS = 20;
/** Ticks fall between the packets of who sends every 20 ms. */
const FIRST_TICK_MS = 10;

/** A packet of a speaker, and when it comes. */
export type Arrival = { peer: string; packet: MediaPacket; atMs: number };

/** What a listener was given. */
export type Heard = {
  frames: Buffer[];
  /** When each frame came. */
  framesAtMs: number[];
  concealedMs: number;
  listener: Listener;
};

/** The clock that a mixer is driven by, turned by hand. */
export class HandClock extends FrameClock {
  readonly #ticks = new Set<(nowMs: number) => void>();

  override add(onTick: (nowMs: number) => void): void {
    this.#ticks.add(onTick);
  }

  override remove(onTick: (nowMs: number) => void): void {
    this.#ticks.delete(onTick);
  }

  get isRunning(): boolean {
    return this.#ticks.size > 0;
  }

  tick(nowMs: number): void {
    for (const onTick of this.#ticks) onTick(nowMs);
  }
}

/** One room, of speakers who send RTP and of those who hear it over a WebSocket. */
export class SimulatedRoom {
  readonly mixer: Mixer;
  readonly faults: unknown[] = [];
  readonly #clock = new HandClock();
  #nowMs = 0;
  #nextTickMs = FIRST_TICK_MS;

  constructor(codecs: Codecs, speakers: string[]) {
    const host = new MixHost(
      0,
      codecs,
      { bitrateBps: 48_000, complexity: 5 },
      {
        onFault: (fault) => this.faults.push(fault),
        onThreadLost: (reason) => this.faults.push(reason),
      },
    );
    const settings = {
      talkers: { thresholdDbov: 65, holdMs: 500, maxMixed: 8 },
      jitterBuffer: { minMs: 5, maxMs: 200 },
    };
    this.mixer = new Mixer(host, this.#clock, settings, () => {});
    for (const [i, name] of speakers.entries()) this.mixer.addSpeaker(name, i + 1);
  }

  listen(peer: string, format: AudioFormat, delivery: Delivery = 'mix'): Heard {
    const heard: Heard = {
      frames: [],
      framesAtMs: [],
      concealedMs: 0,
      listener: {
        peer,
        format,
        delivery,
        volume: {},
        deliver: (frame) => {
          heard.frames.push(frame);
          heard.framesAtMs.push(this.#nowMs);
        },
        concealed: (samples) => {
          heard.concealedMs += samples / 48;
        },
      },
    };
    this.mixer.addListener(heard.listener);
    return heard;
  }

  /** Lets packets come, each at its time, while the clock ticks; ends with the last of them. */
  async play(...streams: Arrival[][]): Promise<void> {
    const arrivals = streams.flat().toSorted((one, other) => one.atMs - other.atMs);
    for (const { peer, packet, atMs } of arrivals) {
      await this.#tickUntil(atMs);
      this.#nowMs = atMs;
      this.mixer.receive(peer, packet, atMs);
    }
  }

  async #tickUntil(atMs: number): Promise<void> {
    for (; this.#nextTickMs <= atMs; this.#nextTickMs += TICK_MS) {
      // What opens asynchronously is open by the next tick.
      await new Promise(setImmediate);
      this.#nowMs = this.#nextTickMs;
      this.#clock.tick(this.#nextTickMs);
    }
  }
}

/** The RTP of one speaker whose Opus packets come at their pace from `fromMs` on. */
export function streamOf(
  peer: string,
  payloads: Buffer[],
  { fromMs = 0, levelDbov = 20 } = {},
): Arrival[] {
  let timestamp = fromMs * 48;
  return payloads.map((payload, sequenceNumber) => {
    const packet = { sequenceNumber, timestamp, marker: false, levelDbov, payload };
    const atMs = timestamp / 48;
    timestamp += opusPacketSamples(payload) ?? 0;
    return { peer, packet, atMs };
  });
}
