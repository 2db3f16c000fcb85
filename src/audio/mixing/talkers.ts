import { SILENCE_DBOV } from '../../rtp/packet.ts';
import { FRAME_SAMPLES } from '../format.ts';

export type TalkerSettings = {
  /** At this level or louder a packet is talk; in -dBov, so a smaller number is louder. */
  thresholdDbov: number;
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

type Talker = { levelDbov: number; rankDbov: number; loudAtMs: number };

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

  /** Everybody who talks, mixed or not, with the smoothed level in -dBov. */
  levels(): [Id, number][] {
    return [...this.#talking].map(([id, talker]) => [id, Math.round(talker.levelDbov)]);
  }

  /**
   * Takes in the level of one packet; a packet without a level counts as loud.
   * @param durationSamples how long it is, at 48 kHz
   * @returns whether the talking or the mixed have changed
   */
  heard(id: Id, levelDbov: number | undefined, durationSamples: number, nowMs: number): boolean {
    const level = levelDbov ?? 0;
    const talker = this.#talking.get(id);
    const isLoud = level <= this.#settings.thresholdDbov;
    if (!talker) {
      if (!isLoud) return false;
      this.#talking.set(id, { levelDbov: level, rankDbov: level, loudAtMs: nowMs });
      this.#admit(id, level);
      return true;
    }
    const frames = durationSamples / FRAME_SAMPLES;
    talker.levelDbov += (level - talker.levelDbov) * Math.min(1, LEVEL_SMOOTHING * frames);
    talker.rankDbov += (level - talker.rankDbov) * Math.min(1, RANK_SMOOTHING * frames);
    if (isLoud) talker.loudAtMs = nowMs;
    else if (nowMs - talker.loudAtMs > this.#settings.holdMs) return this.delete(id);
    return !this.#mixed.has(id) && this.#admit(id, talker.rankDbov);
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
  #admit(id: Id, rankDbov: number): boolean {
    if (this.#mixed.size >= this.#settings.maxMixed) {
      const [quietestId, quietestDbov] = this.#extreme(this.#mixed, (a, b) => a > b);
      if (quietestId === undefined || rankDbov + TAKE_OVER_DB > quietestDbov) return false;
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
    let found: [Id | undefined, number] = [undefined, SILENCE_DBOV];
    for (const id of ids) {
      const level = this.#talking.get(id)?.rankDbov ?? SILENCE_DBOV;
      if (found[0] === undefined || isMore(level, found[1])) found = [id, level];
    }
    return found;
  }
}
