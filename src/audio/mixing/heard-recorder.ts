import { formatAudioFormat } from '../format.ts';
import type { HeardSource, SpeakerId } from './mix-plan.ts';
import type { Ear, Listener, PlannedSubscription } from './subscriptions.ts';

const OPUS = formatAudioFormat({ codec: 'opus' });

/**
 * Records the audio that Opus listeners have heard last, because their next mix must continue from it. Listeners that receive each
 * speaker separately have a decoder for each speaker: of them only the mixes are recorded.
 */
export class HeardRecorder {
  readonly #heard = new WeakMap<Listener, HeardSource>();
  /** Mixes that are heard by listeners with a decoder for each speaker. */
  #apart = new WeakMap<Listener, Set<string>>();
  #isNoted = true;

  /** Adds the audio that listeners have heard until now to new plans of mixes. */
  plan(mixes: ReadonlyMap<string, PlannedSubscription>): void {
    this.#isNoted = false;
    for (const { planned, ears } of mixes.values()) {
      const joinedFrom = this.#joinedFrom(planned.name, ears.get(OPUS) ?? []);
      if (joinedFrom.length > 0) planned.joinedFrom = joinedFrom;
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
    this.#apart = new WeakMap();
    for (const [mix, { ears }] of mixes) {
      for (const { listener, number } of ears.get(OPUS) ?? []) {
        if (number === undefined) this.#heard.set(listener, { mix });
        else this.#apartOf(listener).add(mix);
      }
    }
  }

  /** Replaces a listener whose subscription changes. */
  replace(before: Listener, after: Listener): void {
    const heard = this.#heard.get(before);
    if (heard) this.#heard.set(after, heard);
    const apart = this.#apart.get(before);
    if (apart) this.#apart.set(after, apart);
  }

  #joinedFrom(mix: string, ears: Ear[]): (HeardSource | 'nothing')[] {
    const sources = new Map<string | SpeakerId, HeardSource | 'nothing'>();
    for (const { listener, number } of ears) {
      const heard = number === undefined ? this.#heard.get(listener) : undefined;
      if (heard && 'speaker' in heard) sources.set(heard.speaker, heard);
      else if (heard && heard.mix !== mix) sources.set(heard.mix, heard);
      else if (!heard && !this.#apart.get(listener)?.has(mix)) sources.set('nothing', 'nothing');
    }
    return [...sources.values()];
  }

  #apartOf(listener: Listener): Set<string> {
    let mixes = this.#apart.get(listener);
    if (!mixes) this.#apart.set(listener, (mixes = new Set()));
    return mixes;
  }
}
