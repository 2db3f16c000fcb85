import { FRAME_MS } from './chirp.ts';
import type { Voice } from './voice.ts';

/** Sends a frame each 20 ms: silence, and the chirp when asked. */
export class Microphone {
  readonly #voice: Voice;
  readonly #send: (frame: Uint8Array) => void;
  readonly #startMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  #sent = 0;
  #chirp: { sentAtMs: number[]; done: (sentAtMs: number[]) => void } | undefined;

  constructor(voice: Voice, send: (frame: Uint8Array) => void) {
    this.#voice = voice;
    this.#send = send;
    this.#timer = setInterval(() => this.#sendDue(), FRAME_MS / 4);
  }

  /** Plays the chirp once. Resolves when it is sent, with the sending time of each frame, by `performance.now()`. */
  play(): Promise<number[]> {
    return new Promise((done) => {
      this.#chirp = { sentAtMs: [], done };
    });
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sendDue(): void {
    const nowMs = performance.now();
    for (; this.#startMs + this.#sent * FRAME_MS <= nowMs; this.#sent += 1) {
      const chirp = this.#chirp;
      this.#send((chirp && this.#voice.chirp[chirp.sentAtMs.length]) ?? this.#voice.silence);
      if (!chirp) continue;
      chirp.sentAtMs.push(performance.now());
      if (chirp.sentAtMs.length < this.#voice.chirp.length) continue;
      this.#chirp = undefined;
      chirp.done(chirp.sentAtMs);
    }
  }
}
