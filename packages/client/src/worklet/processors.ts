import { Framer } from './framer.ts';
import { Playout } from './playout.ts';

/** Both ends of a room's audio in the thread that renders audio: microphone and speakers. */

declare const sampleRate: number;
declare function registerProcessor(name: string, type: new () => AudioWorkletProcessor): void;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}

/** Posts frames of 20 ms at 48 kHz to its port, until it is sent a message. */
class CaptureProcessor extends AudioWorkletProcessor {
  readonly #framer = new Framer(sampleRate, (frame) =>
    this.port.postMessage(frame, [frame.buffer]),
  );
  #isStopped = false;

  constructor() {
    super();
    this.port.addEventListener('message', () => (this.#isStopped = true));
    this.port.start();
  }

  process([input]: Float32Array[][]): boolean {
    const block = input?.[0];
    if (block) this.#framer.push(block);
    // A processor that returns true runs as long as its context, also when it is connected to
    // nothing.
    return !this.#isStopped;
  }
}

/**
 * Plays audio that comes through the port that it is sent: samples, or null for a lost packet. Answers `stats` with its
 * statistics, and shortens its delay between `hurry` and `steady`.
 */
class PlayoutProcessor extends AudioWorkletProcessor {
  readonly #playout = new Playout();

  constructor() {
    super();
    this.port.addEventListener('message', ({ data, ports: [source] }) => {
      if (source) {
        source.addEventListener('message', (event) => this.#take(event.data));
        source.start();
      } else if (data === 'stats') this.port.postMessage(this.#playout.stats);
      else this.#playout.isHurried = data === 'hurry';
    });
    this.port.start();
  }

  #take(samples: Float32Array | null): void {
    if (samples) this.#playout.push(samples);
    else this.#playout.pushLost();
  }

  process(_inputs: Float32Array[][], [output]: Float32Array[][]): boolean {
    const block = output?.[0];
    if (block) this.#playout.read(block);
    return true;
  }
}

registerProcessor('partyline-capture', CaptureProcessor);
registerProcessor('partyline-playout', PlayoutProcessor);
