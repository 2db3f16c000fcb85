import { SILENCE_LEVEL } from '../../rtp/packet.ts';
import { FRAME_SAMPLES } from '../format.ts';

export type TalkerSettings = {
  /** At this audio level or louder a packet is talk; the smaller the number, the louder. */
  thresholdLevel: number;
  /** How long after its last loud packet a speaker still counts as talking. */
  holdMs: number;
  /** So many of the loudest are mixed. */
  maxMixed: number;
};

/** How much louder than the quietest of the mixed a newcomer must be to take its place. */
const TAKE_OVER_DB = 6;
/** Share of a new level, of 20 ms, in the one that is told: a fifth of a second. */
const LEVEL_SMOOTHING = 0.1;
/** The same in the one by which the mixed are chosen: a second, so that syllables do not push each other out. */
const RANK_SMOOTHING = 0.02;

type Talker = { audioLevel: number; rankLevel: number; loudAtMs: number };

/**
 * Who talks, judged by the RFC 6464 level of each packet, and who of them is mixed. Pure: it is told the time.
 * Membership changes only in {@link heard}, {@link expire} and {@link delete}, each of which says whether it did.
 */
export class Talkers<Id> {
  readonly #settings: TalkerSettings;
  readonly #talking = new Map<Id, Talker>();
  readonly #mixed = new Set<Id>();

  constructor(settings: TalkerSettings) {
    this.#settings = settings;
  }

  /** Who is mixed now, in the order in which they came. */
  get mixed(): ReadonlySet<Id> {
    return this.#mixed;
  }

  get isSilent(): boolean {
    return this.#talking.size === 0;
  }

  isTalking(id: Id): boolean {
    return this.#talking.has(id);
  }

  /** Everybody who talks, mixed or not, with the smoothed audio level. */
  levels(): [Id, number][] {
    return [...this.#talking].map(([id, talker]) => [id, Math.round(talker.audioLevel)]);
  }

  /**
   * Takes in the level of one packet; a packet without a level counts as loud.
   * @param durationSamples how long it is, at 48 kHz
   * @returns whether the talking or the mixed have changed
   */
  heard(id: Id, audioLevel: number | undefined, durationSamples: number, nowMs: number): boolean {
    const level = audioLevel ?? 0;
    const talker = this.#talking.get(id);
    const isLoud = level <= this.#settings.thresholdLevel;
    if (!talker) {
      if (!isLoud) return false;
      this.#talking.set(id, { audioLevel: level, rankLevel: level, loudAtMs: nowMs });
      this.#admit(id, level);
      return true;
    }
    const frames = durationSamples / FRAME_SAMPLES;
    talker.audioLevel += (level - talker.audioLevel) * Math.min(1, LEVEL_SMOOTHING * frames);
    talker.rankLevel += (level - talker.rankLevel) * Math.min(1, RANK_SMOOTHING * frames);
    if (isLoud) talker.loudAtMs = nowMs;
    else if (nowMs - talker.loudAtMs > this.#settings.holdMs) return this.delete(id);
    return !this.#mixed.has(id) && this.#admit(id, talker.rankLevel);
  }

  /** Drops those who sent nothing loud for the hold time, also if they send nothing at all. */
  expire(nowMs: number): boolean {
    let changed = false;
    for (const [id, { loudAtMs }] of this.#talking) {
      if (nowMs - loudAtMs > this.#settings.holdMs) changed = this.delete(id) || changed;
    }
    return changed;
  }

  delete(id: Id): boolean {
    const changed = this.#talking.delete(id);
    if (this.#mixed.delete(id)) this.#fill();
    return changed;
  }

  /** Mixes `id` if there is room, or in place of one who is clearly quieter. */
  #admit(id: Id, rankLevel: number): boolean {
    if (this.#mixed.size >= this.#settings.maxMixed) {
      const [quietestId, quietestLevel] = this.#extreme(this.#mixed, (a, b) => a > b);
      if (quietestId === undefined || rankLevel + TAKE_OVER_DB > quietestLevel) return false;
      this.#mixed.delete(quietestId);
    }
    this.#mixed.add(id);
    return true;
  }

  /** Gives a free place to the loudest who has none. */
  #fill(): void {
    const waiting = [...this.#talking.keys()].filter((id) => !this.#mixed.has(id));
    const [loudest] = this.#extreme(waiting, (a, b) => a < b);
    if (loudest !== undefined) this.#mixed.add(loudest);
  }

  #extreme(ids: Iterable<Id>, isMore: (a: number, b: number) => boolean): [Id | undefined, number] {
    let found: [Id | undefined, number] = [undefined, SILENCE_LEVEL];
    for (const id of ids) {
      const level = this.#talking.get(id)?.rankLevel ?? SILENCE_LEVEL;
      if (found[0] === undefined || isMore(level, found[1])) found = [id, level];
    }
    return found;
  }
}
