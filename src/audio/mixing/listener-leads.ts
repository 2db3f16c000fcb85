import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import { FRAME_MS, FRAME_SAMPLES, formatAudioFormat } from '../format.ts';
import type { Ear, HeardSpeaker, Listener, PlannedSubscription } from './subscriptions.ts';

const OPUS = formatAudioFormat({ codec: 'opus' });
/** Minimum time between two packets that a listener is not sent: a decoder gets to know the stream again meanwhile. */
export const LEFT_OUT_EVERY_MS = 100;
/** Lead from which a listener is not sent the packets of a speaker, ms: only speakers that are too fast by turns cause it. */
const MAX_LEAD_MS = 500;
/** Gap between two frames that players get over, ms: they play the last one a little later. */
const RESERVE_MS = FRAME_MS;
/** Duration of the windows over which the least is taken of what a source is ahead, samples: the last one to two windows. */
const WINDOW_SAMPLES = 50 * FRAME_SAMPLES;

/** Origin of frames: a speaker whose packets are sent as they are, or a mix. A listener that is sent all of them plays them as a queue. */
export class FrameSource {
  /** Time at which such a listener has played the last frame. */
  endsAtMs = -Infinity;
  /** Sum of the pauses between its frames, ms, in which listeners have played what they had. */
  pausedMs = 0;
  /** Listeners that have been sent none of its frames since they changed to it. */
  readonly newcomers = new Set<Listener>();
  /** Least duration of the queue at a frame, ms, of the window before, and of this one. */
  #leastBeforeMs = 0;
  #leastMs = Infinity;
  #windowSamples = 0;
  /** States of listeners that may play all they have before the queue ends, and the least lead of one. */
  readonly #behind = new Set<State>();
  #leastLeadMs = 0;

  /** Duration of the queue that has lately never been played, ms, but for a frame: by that much a mix is later than packets as sent. */
  get leastAheadMs(): number {
    return Math.max(0, Math.min(this.#leastBeforeMs, this.#leastMs) - FRAME_MS);
  }

  /** Adds a frame to the queue. @returns the time at which it begins */
  add(durationSamples: number, nowMs: number): number {
    const aheadMs = this.endsAtMs - nowMs;
    if (aheadMs < 0 && aheadMs > -Infinity) this.pausedMs -= aheadMs;
    const dryMs = -Math.max(0, aheadMs) - RESERVE_MS;
    if (this.#leastLeadMs < dryMs) this.#catchUp(dryMs);
    this.#noteLeast(Math.max(0, aheadMs), durationSamples);
    const beganAtMs = Math.max(nowMs, this.endsAtMs);
    this.endsAtMs = beganAtMs + durationSamples / SAMPLES_PER_MS;
    return beganAtMs;
  }

  #noteLeast(aheadMs: number, durationSamples: number): void {
    this.#leastMs = Math.min(this.#leastMs, aheadMs);
    this.#windowSamples += durationSamples;
    if (this.#windowSamples < WINDOW_SAMPLES) return;
    this.#leastBeforeMs = this.#leastMs;
    this.#leastMs = Infinity;
    this.#windowSamples = 0;
  }

  /** Notes a change of the lead of a listener. */
  noteLead(state: State): void {
    if (state.leadMs >= -RESERVE_MS) {
      this.#behind.delete(state);
      return;
    }
    this.#behind.add(state);
    this.#leastLeadMs = Math.min(this.#leastLeadMs, state.leadMs);
  }

  leave(state: State): void {
    this.#behind.delete(state);
  }

  /** Handles a frame at which listeners with less than this lead have played all that they had. */
  #catchUp(leadMs: number): void {
    this.#leastLeadMs = leadMs;
    for (const state of this.#behind) state.leadMs = Math.max(state.leadMs, leadMs);
    if (leadMs === -RESERVE_MS) this.#behind.clear();
  }
}

/** Format of a frame, and its receivers. */
type HeardFrame = { format: string; ears: readonly Ear[] };

/** Speaker, and the queue of what is heard of it apart: its packets while they have receivers (`apartFollowers`), else frames of a mix. */
type HeardApart = Pick<HeardSpeaker, 'id' | 'apartFollowers'> & { apart: FrameSource };

type State = {
  source: FrameSource;
  /** Time at which a newcomer to the source has played all that it was sent before. */
  endsAtMs: number;
  /** Duration that a listener has to play beyond the queue of the source, ms; negative if it has less. */
  leadMs: number;
  leftOutAtMs: number;
  /** Pauses of the source that are accounted for, ms. */
  pausedMs: number;
};

/**
 * Leads of the listeners to Opus with `delivery=mix`: a first frame of another source is sent while the last one of the source before
 * has not ended, and each such change adds up to a frame to what they are still to play. As soon as that is a packet, they are not sent
 * one of a pause. Nothing is counted for each packet and listener, but for the first one after a change.
 */
export class ListenerLeads {
  /** Sources by the name of their mix, and speakers that are heard apart in it. */
  #mixes = new Map<string, FrameSource>();
  #apart = new Map<string, HeardApart>();
  readonly #states = new WeakMap<Listener, State>();
  /** Listeners that are a frame or more ahead of their source, and those of them that have the maximum lead. */
  readonly #ahead = new Map<Listener, State>();
  readonly #farAhead = new Set<Listener>();

  /** Notes the sources of a new plan. */
  plan(
    mixes: ReadonlyMap<string, PlannedSubscription>,
    asSent: ReadonlyMap<{ source: FrameSource }, ReadonlySet<Listener>>,
    speakers: readonly HeardApart[],
  ): void {
    const before = this.#mixes;
    this.#mixes = new Map();
    this.#apart = new Map();
    for (const [name, { planned, ears }] of mixes) {
      const hearing = ears.get(OPUS);
      if (!hearing) continue;
      const { without, gains, gainsBefore } = planned;
      const [alone, another] = speakers.filter(({ id }) => !without.includes(id));
      const isUnchanged = !another && gains.length === 0 && gainsBefore.length === 0;
      if (alone && isUnchanged) this.#apart.set(name, alone);
      const source = before.get(name) ?? new FrameSource();
      this.#mixes.set(name, source);
      for (const { listener, number } of hearing) {
        if (number === undefined) this.#follow(listener, source);
      }
    }
    for (const [{ source }, listeners] of asSent) {
      for (const listener of listeners) this.#follow(listener, source);
    }
  }

  /** Notes that a frame of a mix is sent; `isPast` if its tick began before the last plan. */
  mixed(mix: string, { format, ears }: HeardFrame, nowMs: number, isPast: boolean): void {
    if (format !== OPUS) return;
    const alone = this.#apart.get(mix);
    if (alone?.apartFollowers.size === 0) alone.apart.add(FRAME_SAMPLES, nowMs);
    const source = this.#mixes.get(mix);
    if (isPast) for (const { listener } of ears) this.#past(listener, source, FRAME_SAMPLES, nowMs);
    if (!source) return;
    const beganAtMs = source.add(FRAME_SAMPLES, nowMs);
    const { newcomers } = source;
    if (newcomers.size === 0) return;
    for (const { listener } of ears) {
      if (newcomers.delete(listener)) this.#begin(listener, beganAtMs, nowMs);
    }
  }

  /**
   * Notes that a packet of a speaker is sent.
   * @param pastFollowers listeners that are sent it, if they are not those of the last plan
   */
  sent(
    source: FrameSource,
    durationSamples: number,
    nowMs: number,
    pastFollowers?: ReadonlySet<Listener>,
  ): void {
    if (pastFollowers) {
      for (const listener of pastFollowers) this.#past(listener, source, durationSamples, nowMs);
    }
    const beganAtMs = source.add(durationSamples, nowMs);
    if (source.newcomers.size === 0) return;
    for (const listener of source.newcomers) {
      if (pastFollowers?.has(listener) === false) continue;
      source.newcomers.delete(listener);
      this.#begin(listener, beganAtMs, nowMs);
    }
  }

  /** True if {@link leavesOut} may leave out a packet. @param isSpare true if decoders can do without it */
  mayLeaveOut(isSpare: boolean): boolean {
    return isSpare || this.#farAhead.size > 0;
  }

  /** Decides about a packet that counts as sent; true if this listener is not to be sent it. */
  leavesOut(
    listener: Listener,
    source: FrameSource,
    { durationSamples, isSpare }: { durationSamples: number; isSpare: boolean },
    nowMs: number,
  ): boolean {
    const isQueueShort = source.leastAheadMs < FRAME_MS;
    const state = isQueueShort ? this.#ahead.get(listener) : this.#states.get(listener);
    if (!state) return false;
    takePauses(state);
    if (state.leadMs < MAX_LEAD_MS) this.#farAhead.delete(listener);
    const durationMs = durationSamples / SAMPLES_PER_MS;
    const isAhead = state.leadMs + source.leastAheadMs >= durationMs;
    const isDue = nowMs - state.leftOutAtMs >= LEFT_OUT_EVERY_MS;
    if (state.leadMs < MAX_LEAD_MS && !(isSpare && isAhead && isDue)) return false;
    state.leftOutAtMs = nowMs;
    state.leadMs -= durationMs;
    this.#noteLead(listener, state);
    return true;
  }

  /** Notes that newcomers are sent a packet at once, before the first one that is sent at its time. */
  sentBefore({ newcomers }: FrameSource, durationSamples: number, nowMs: number): void {
    for (const listener of newcomers) addTo(this.#states.get(listener)!, durationSamples, nowMs);
  }

  /** Replaces a listener that goes on with the same frames. */
  replace(before: Listener, after: Listener): void {
    const state = this.#states.get(before);
    if (!state) return;
    this.#states.delete(before);
    this.#states.set(after, state);
    if (state.source.newcomers.delete(before)) state.source.newcomers.add(after);
    this.#forget(before);
    this.#noteLead(after, state);
  }

  delete(listener: Listener): void {
    const state = this.#states.get(listener);
    if (!state) return;
    state.source.newcomers.delete(listener);
    state.source.leave(state);
    this.#states.delete(listener);
    this.#forget(listener);
  }

  #follow(listener: Listener, source: FrameSource): void {
    const state = this.#states.get(listener);
    if (!state) {
      const ends = { endsAtMs: -Infinity, leadMs: 0, leftOutAtMs: -Infinity, pausedMs: 0 };
      this.#states.set(listener, { source, ...ends });
      source.newcomers.add(listener);
      return;
    }
    const before = state.source;
    if (before === source) return;
    if (!before.newcomers.delete(listener)) {
      takePauses(state);
      state.endsAtMs = before.endsAtMs + state.leadMs;
    }
    before.leave(state);
    this.#forget(listener);
    source.newcomers.add(listener);
    state.source = source;
    state.leadMs = 0;
  }

  /** Counts a frame of a tick that began before the last plan for a listener that has changed to another source since. */
  #past(
    listener: Listener,
    source: FrameSource | undefined,
    durationSamples: number,
    nowMs: number,
  ): void {
    const state = this.#states.get(listener);
    if (!state || state.source === source) return;
    if (state.source.newcomers.has(listener)) {
      addTo(state, durationSamples, nowMs);
      return;
    }
    takePauses(state);
    state.endsAtMs = state.source.endsAtMs + state.leadMs;
    addTo(state, durationSamples, nowMs);
    state.leadMs = state.endsAtMs - state.source.endsAtMs;
    this.#noteLead(listener, state);
  }

  #begin(listener: Listener, beganAtMs: number, nowMs: number): void {
    const state = this.#states.get(listener)!;
    const isFirst = state.endsAtMs === -Infinity;
    state.leadMs = Math.max(isFirst ? nowMs : nowMs - RESERVE_MS, state.endsAtMs) - beganAtMs;
    state.pausedMs = state.source.pausedMs;
    this.#noteLead(listener, state);
  }

  #noteLead(listener: Listener, state: State): void {
    state.source.noteLead(state);
    this.#forget(listener);
    if (state.leadMs >= FRAME_MS) this.#ahead.set(listener, state);
    if (state.leadMs >= MAX_LEAD_MS) this.#farAhead.add(listener);
  }

  #forget(listener: Listener): void {
    this.#ahead.delete(listener);
    this.#farAhead.delete(listener);
  }
}

/** Adds a frame to what a newcomer has to play. */
function addTo(state: State, durationSamples: number, nowMs: number): void {
  state.endsAtMs = Math.max(nowMs - RESERVE_MS, state.endsAtMs) + durationSamples / SAMPLES_PER_MS;
}

/** Takes off the lead what a listener has played in pauses of its source. */
function takePauses(state: State): void {
  const { pausedMs } = state.source;
  const leadMs = state.leadMs - pausedMs + state.pausedMs;
  state.leadMs = Math.max(Math.min(0, state.leadMs), leadMs);
  state.pausedMs = pausedMs;
}
