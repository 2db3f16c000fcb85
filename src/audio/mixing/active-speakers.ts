import { FRAME_SAMPLES } from '../format.ts';
import { RecentPower } from './recent-power.ts';
import { SteadyNoise } from './steady-noise.ts';

export type ActiveSpeakerSettings = {
  /** Softest audio level of a packet that counts as talk, -dBov; smaller numbers are louder. */
  thresholdLevel: number;
  /** Time after its last loud packet for which a speaker still counts as talking, ms. */
  holdMs: number;
  /** Maximum number of speakers that are mixed: the loudest ones. */
  maxMixed: number;
};

/** Minimum ratio of the power of a new speaker to that of a mixed one whose place it takes: 6 dB. */
const TAKE_OVER_RATIO = 10 ** (6 / 10);
/** Averaging time of the reported level, tenths of a second. */
const LEVEL_TENTHS = 2;
/** Averaging time of the level by which mixed speakers are chosen, tenths of a second: a second, so that syllables do not displace each other. */
const RANK_TENTHS = 10;
/** Number of frames of loud audio after which a speaker of steady noise is not admitted to the mix (again, if it was displaced). */
const HEARD_FRAMES = 50;

/** Number of frames of 20 ms for which a sound must be loud to count as more than a cough. */
const LASTING_FRAMES = 5;

/** State of a speaker, with a talker while it talks. */
type SpeakerState = { noise: SteadyNoise; talker: Talker | undefined };

type Talker = {
  /** Mean power of the loud packets: pauses do not count. */
  power: RecentPower;
  rankPower: number;
  /** Duration of loud audio, frames. */
  frames: number;
  loudAtMs: number;
  /** True if the last packet was not loud. */
  isPausing: boolean;
};

/**
 * Speakers that talk, judged by the audio level (RFC 6464) of each packet, and those of them that are mixed.
 * Pure: the caller passes the time. Membership changes only in {@link heard}, {@link expire}, {@link end} and {@link
 * delete}, each of which returns whether it changed.
 */
export class ActiveSpeakers<Id> {
  readonly #settings: ActiveSpeakerSettings;
  readonly #talking = new Map<Id, Talker>();
  readonly #states = new Map<Id, SpeakerState>();
  readonly #mixed = new Set<Id>();
  #mixedVersion = 0;

  constructor(settings: ActiveSpeakerSettings) {
    this.#settings = settings;
  }

  /** Speakers that are mixed now, in the order of their admission. */
  get mixed(): ReadonlySet<Id> {
    return this.#mixed;
  }

  /** Number that changes whenever {@link mixed} has changed. */
  get mixedVersion(): number {
    return this.#mixedVersion;
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
   * Processes the level of one packet; a packet without a level counts as talk, but does not displace another speaker.
   * @param durationSamples duration of the packet, samples at 48 kHz
   * @returns true if the talking or the mixed speakers have changed
   */
  heard(id: Id, audioLevel: number | undefined, durationSamples: number, nowMs: number): boolean {
    const { thresholdLevel, holdMs } = this.#settings;
    const level = audioLevel ?? thresholdLevel;
    const power = 10 ** (-level / 10);
    const state = this.#stateOf(id);
    const isNoise = state.noise.isNoise(power, durationSamples);
    const isLoud = level <= thresholdLevel && !isNoise;
    const { talker } = state;
    if (!talker) {
      if (!isLoud) return false;
      const begun = {
        power: new RecentPower(RANK_TENTHS),
        rankPower: 0,
        frames: 0,
        loudAtMs: nowMs,
        isPausing: false,
      };
      state.talker = begun;
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
    return isLoud && !this.#mixed.has(id) && this.#admit(id, talker);
  }

  /** Removes speakers without a loud packet for the hold time, including those that send nothing. */
  expire(nowMs: number): boolean {
    let changed = false;
    for (const [id, { loudAtMs }] of this.#talking) {
      if (nowMs - loudAtMs > this.#settings.holdMs) changed = this.end(id) || changed;
    }
    return changed;
  }

  /** Removes a speaker. */
  delete(id: Id): boolean {
    const changed = this.end(id);
    this.#states.delete(id);
    return changed;
  }

  /** Ends the talk of a speaker at once. @returns true if the speaker talked */
  end(id: Id): boolean {
    const changed = this.#talking.delete(id);
    const state = this.#states.get(id);
    if (state) state.talker = undefined;
    if (this.#mixed.delete(id)) {
      this.#mixedVersion += 1;
      this.#fill();
    }
    return changed;
  }

  #stateOf(id: Id): SpeakerState {
    let state = this.#states.get(id);
    if (!state) {
      state = { noise: new SteadyNoise(), talker: undefined };
      this.#states.set(id, state);
    }
    return state;
  }

  #isSteady(id: Id): boolean {
    return this.#states.get(id)?.noise.isSteady ?? false;
  }

  /** Mixes `id` if there is a free place, or in place of a speaker that is only noise, or clearly quieter. */
  #admit(id: Id, talker: Talker): boolean {
    // A displaced speaker does not return as noise: it would come and go with the pauses of others.
    if (talker.frames > HEARD_FRAMES && this.#isSteady(id)) return false;
    if (this.#mixed.size >= this.#settings.maxMixed) {
      const victim = this.#victim(talker);
      if (victim === undefined) return false;
      this.#mixed.delete(victim);
    }
    this.#mixed.add(id);
    this.#mixedVersion += 1;
    return true;
  }

  /** Returns the speaker that another one displaces: noise first, then a pausing speaker, then the quietest. */
  #victim(newcomer: Talker): Id | undefined {
    let found: { id: Id; rank: number; rankPower: number } | undefined;
    for (const id of this.#mixed) {
      const { rankPower, isPausing, frames } = this.#talking.get(id)!;
      const isSteady = this.#isSteady(id);
      if (!isSteady && newcomer.rankPower < TAKE_OVER_RATIO * rankPower) continue;
      // A cough does not displace a speaker.
      if (!isSteady && !isPausing && newcomer.frames < Math.min(frames, LASTING_FRAMES)) continue;
      const rank = isSteady ? 0 : isPausing ? 1 : 2;
      const isSooner =
        !found || rank < found.rank || (rank === found.rank && rankPower < found.rankPower);
      if (isSooner) found = { id, rank, rankPower };
    }
    return found?.id;
  }

  /** Gives a free place to the loudest speaker that has none and is more than noise. */
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

/** Adds loud audio to the state of a speaker. */
function count(talker: Talker, power: number, frames: number): void {
  talker.frames += frames;
  talker.power.add(power, frames);
  talker.rankPower = talker.power.meanOf(RANK_TENTHS);
}
