import { formatAudioFormat } from '../format.ts';
import type { HeardSource, SpeakerId } from './mix-plan.ts';
import type { Ear, Listener, PlannedSubscription } from './subscriptions.ts';

const OPUS = formatAudioFormat({ codec: 'opus' });

/**
 * Records the audio that Opus listeners have heard last, because their next mix must continue from it. Listeners that receive each
 * speaker separately have a decoder for each speaker, and are not recorded.
 */
export class HeardRecorder {
  readonly #heard = new WeakMap<Listener, HeardSource>();
  #isNoted = true;

  /** Adds the audio that listeners have heard until now to new plans of mixes. */
  plan(mixes: ReadonlyMap<string, PlannedSubscription>): void {
    this.#isNoted = false;
    for (const { planned, ears } of mixes.values()) {
      const before = this.#firstHeard(ears.get(OPUS) ?? []);
      const isSame = before && 'mix' in before && before.mix === planned.name;
      if (before && !isSame) planned.continuesFrom = before;
    }
  }

  /** Records that listeners receive the packets of a speaker from now on. */
  sent(listeners: Iterable<Listener>, speaker: SpeakerId): void {
    for (const listener of listeners) this.#heard.set(listener, { speaker });
  }

  /** Records that the mixes of the last plan are heard from this tick on. */
  tick(mixes: ReadonlyMap<string, PlannedSubscription>): void {
    if (this.#isNoted) return;
    this.#isNoted = true;
    for (const [mix, { ears }] of mixes) {
      for (const { listener, number } of ears.get(OPUS) ?? []) {
        if (number === undefined) this.#heard.set(listener, { mix });
      }
    }
  }

  /** Replaces a listener whose subscription changes. */
  replace(before: Listener, after: Listener): void {
    const heard = this.#heard.get(before);
    if (heard) this.#heard.set(after, heard);
  }

  #firstHeard(ears: Ear[]): HeardSource | undefined {
    for (const { listener, number } of ears) {
      const heard = this.#heard.get(listener);
      if (heard && number === undefined) return heard;
    }
    return undefined;
  }
}
