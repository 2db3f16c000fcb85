import { FRAME_SAMPLES } from '../format.ts';
import { RecentPower } from './recent-power.ts';
import { SteadyNoise } from './steady-noise.ts';

export type ActiveSpeakerSettings = {
  /** At this audio level or louder a packet is talk; the smaller the number, the louder. */
  thresholdLevel: number;
  /** How long after its last loud packet a speaker still counts as talking. */
  holdMs: number;
  /** Maximum number of speakers that are mixed: the loudest. */
  maxMixed: number;
};

/** How much louder than one of the mixed a newcomer must be to take its place. */
const TAKE_OVER_RATIO = 10 ** (6 / 10);
/** Number of tenths of a second that are averaged to the level that is told, */
const LEVEL_TENTHS = 2;
/** and to the one by which the mixed are chosen: a second, so that syllables do not push each other out. */
const RANK_TENTHS = 10;
/** Time after which a speaker that is heard has had its chance. */
const HEARD_FRAMES = 50;

/** Number of frames of 20 ms for which a sound must be loud to count as more than a cough. */
const LASTING_FRAMES = 5;

type Talker = {
  /** Mean of what was loud: pauses do not count. */
  power: RecentPower;
  rankPower: number;
  /** How much has been loud. */
  frames: number;
  loudAtMs: number;
  /** The last packet was not loud. */
  isPausing: boolean;
};

/**
 * Speakers that talk, judged by the audio level (RFC 6464) of each packet, and those of them that are mixed.
 * Pure: it is told the time. Membership changes only in {@link heard}, {@link expire}, {@link end} and {@link
 * delete}, each of which says whether it did.
 */
export class ActiveSpeakers<Id> {
  readonly #settings: ActiveSpeakerSettings;
  readonly #talking = new Map<Id, Talker>();
  /** State of all speakers, also of those that do not talk. */
  readonly #noises = new Map<Id, SteadyNoise>();
  readonly #mixed = new Set<Id>();

  constructor(settings: ActiveSpeakerSettings) {
    this.#settings = settings;
  }

  /** Speakers that are mixed now, in the order in which they came. */
  get mixed(): ReadonlySet<Id> {
    return this.#mixed;
  }

  get isSilent(): boolean {
    return this.#talking.size === 0;
  }

  isTalking(id: Id): boolean {
    return this.#talking.has(id);
  }

  /** Returns all speakers that talk, mixed or not, with the mean audio level of the last fifth of a second of talk. */
  levels(): [Id, number][] {
    return [...this.#talking].map(([id, { power }]) => [
      id,
      Math.round(levelOf(power.meanOf(LEVEL_TENTHS))),
    ]);
  }

  /**
   * Takes in the level of one packet; a packet without a level counts as talk that takes nobody's place.
   * @param durationSamples how long it is, at 48 kHz
   * @returns whether the talking or the mixed have changed
   */
  heard(id: Id, audioLevel: number | undefined, durationSamples: number, nowMs: number): boolean {
    const { thresholdLevel, holdMs } = this.#settings;
    const level = audioLevel ?? thresholdLevel;
    const power = 10 ** (-level / 10);
    const isNoise = this.#noiseOf(id).isNoise(power, durationSamples);
    const isLoud = level <= thresholdLevel && !isNoise;
    const talker = this.#talking.get(id);
    if (!talker) {
      if (!isLoud) return false;
      const begun = {
        power: new RecentPower(RANK_TENTHS),
        rankPower: 0,
        frames: 0,
        loudAtMs: nowMs,
        isPausing: false,
      };
      this.#talking.set(id, begun);
      count(begun, power, durationSamples / FRAME_SAMPLES);
      this.#admit(id, begun);
      return true;
    }
    talker.isPausing = !isLoud;
    if (isLoud) {
      talker.loudAtMs = nowMs;
      count(talker, power, durationSamples / FRAME_SAMPLES);
    } else if (nowMs - talker.loudAtMs > holdMs) {
      return this.end(id);
    }
    return !this.#mixed.has(id) && isLoud && this.#admit(id, talker);
  }

  /** Removes speakers that sent nothing loud for the hold time, including those that send nothing at all. */
  expire(nowMs: number): boolean {
    let changed = false;
    for (const [id, { loudAtMs }] of this.#talking) {
      if (nowMs - loudAtMs > this.#settings.holdMs) changed = this.end(id) || changed;
    }
    return changed;
  }

  /** Removes a speaker. */
  delete(id: Id): boolean {
    this.#noises.delete(id);
    return this.end(id);
  }

  /** Ends a speaker's talk at once. @returns true if the speaker talked */
  end(id: Id): boolean {
    const changed = this.#talking.delete(id);
    if (this.#mixed.delete(id)) this.#fill();
    return changed;
  }

  #noiseOf(id: Id): SteadyNoise {
    let noise = this.#noises.get(id);
    if (!noise) {
      noise = new SteadyNoise();
      this.#noises.set(id, noise);
    }
    return noise;
  }

  #isSteady(id: Id): boolean {
    return this.#noises.get(id)?.isSteady ?? false;
  }

  /** Mixes `id` if there is room, or in place of one who is only noise, or clearly quieter. */
  #admit(id: Id, talker: Talker): boolean {
    // A speaker that has given way does not come back as noise: it would come and go with the pauses of others.
    if (talker.frames > HEARD_FRAMES && this.#isSteady(id)) return false;
    if (this.#mixed.size >= this.#settings.maxMixed) {
      const victim = this.#victim(talker);
      if (victim === undefined) return false;
      this.#mixed.delete(victim);
    }
    this.#mixed.add(id);
    return true;
  }

  /** Returns the speaker that gives way to another: noise first, then one that pauses, then the quietest. */
  #victim(newcomer: Talker): Id | undefined {
    let found: { id: Id; rank: number; rankPower: number } | undefined;
    for (const id of this.#mixed) {
      const { rankPower, isPausing, frames } = this.#talking.get(id)!;
      const isSteady = this.#isSteady(id);
      if (!isSteady && newcomer.rankPower < TAKE_OVER_RATIO * rankPower) continue;
      // A cough interrupts nobody.
      if (!isSteady && !isPausing && newcomer.frames < Math.min(frames, LASTING_FRAMES)) continue;
      const rank = isSteady ? 0 : isPausing ? 1 : 2;
      const isSooner =
        !found || rank < found.rank || (rank === found.rank && rankPower < found.rankPower);
      if (isSooner) found = { id, rank, rankPower };
    }
    return found?.id;
  }

  /** Gives a free place to the loudest who has none and says more than noise. */
  #fill(): void {
    let loudest: [Id, number] | undefined;
    for (const [id, { rankPower }] of this.#talking) {
      if (this.#mixed.has(id) || this.#isSteady(id)) continue;
      if (!loudest || rankPower > loudest[1]) loudest = [id, rankPower];
    }
    if (loudest) this.#mixed.add(loudest[0]);
  }
}

const levelOf = (power: number) => -10 * Math.log10(power);

/** Counts something loud in. */
function count(talker: Talker, power: number, frames: number): void {
  talker.frames += frames;
  talker.power.add(power, frames);
  talker.rankPower = talker.power.meanOf(RANK_TENTHS);
}
