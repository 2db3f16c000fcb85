import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import { FRAME_MS } from '../format.ts';
import type { Ear, Listener, PlannedSubscription } from './subscriptions.ts';

/** Minimum time between two packets that a listener is not sent: a decoder gets to know the stream again meanwhile. */
const LEFT_OUT_EVERY_MS = 100;

/** Origin of frames: a speaker whose packets are sent as they are, or the mixes of a room. */
export class FrameSource {
  /** Time at which the last frame has been played if its playout began when it was sent. */
  endsAtMs = -Infinity;
  sentAtMs = -Infinity;
  /** Sum of the pauses between its frames, ms, in which listeners have played what they had. */
  pausedMs = 0;
  /** Listeners that have been sent none of its frames since they changed to it. */
  readonly newcomers = new Set<Listener>();
}

type State = {
  source: FrameSource;
  /** End of the last frame of the source before. */
  endedAtMs: number;
  /** Negative, down to a frame, if there was a gap. */
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
  /** All mixes: their frames are sent at the same time. */
  readonly #mixes = new FrameSource();
  readonly #states = new WeakMap<Listener, State>();
  /** Listeners that are a frame or more ahead. */
  readonly #ahead = new Map<Listener, State>();

  /** Notes the sources of a new plan. */
  plan(
    mixes: ReadonlyMap<string, PlannedSubscription>,
    asSent: ReadonlyMap<{ source: FrameSource }, ReadonlySet<Listener>>,
  ): void {
    for (const { ears } of mixes.values()) {
      for (const ofFormat of ears.values()) {
        for (const { listener, number } of ofFormat) {
          const isOpus = listener.format.codec === 'opus';
          if (isOpus && number === undefined) this.#follow(listener, this.#mixes);
        }
      }
    }
    for (const [{ source }, listeners] of asSent) {
      for (const listener of listeners) this.#follow(listener, source);
    }
  }

  /** Notes that the frame of a mix is sent to `ears`. */
  mixed(ears: readonly Ear[], nowMs: number, isPast: boolean): void {
    if (isPast) for (const { listener } of ears) this.#mixedPast(listener);
    const { newcomers } = this.#mixes;
    if (newcomers.size > 0) {
      for (const { listener } of ears) if (newcomers.delete(listener)) this.#begin(listener, nowMs);
    }
    this.#mixes.endsAtMs = nowMs + FRAME_MS;
  }

  /** Notes that a packet of a speaker is sent. */
  sent(source: FrameSource, durationSamples: number, nowMs: number): void {
    const beginsAtMs = source.sentAtMs === nowMs ? source.endsAtMs : nowMs;
    const pauseMs = nowMs - source.endsAtMs;
    if (pauseMs > LEFT_OUT_EVERY_MS && pauseMs < Infinity) source.pausedMs += pauseMs;
    source.endsAtMs = beginsAtMs + durationSamples / SAMPLES_PER_MS;
    source.sentAtMs = nowMs;
    if (source.newcomers.size === 0) return;
    for (const listener of source.newcomers) this.#begin(listener, nowMs);
    source.newcomers.clear();
  }

  /** Decides about a packet that may be left out; true if this listener is not to be sent it. */
  leavesOut(listener: Listener, durationSamples: number, nowMs: number): boolean {
    const state = this.#ahead.get(listener);
    const durationMs = durationSamples / SAMPLES_PER_MS;
    if (!state) return false;
    takePauses(state);
    if (state.leadMs < durationMs) return false;
    if (nowMs - state.leftOutAtMs < LEFT_OUT_EVERY_MS) return false;
    state.leftOutAtMs = nowMs;
    state.leadMs -= durationMs;
    this.#noteLead(listener, state);
    return true;
  }

  /** Notes that newcomers are sent a packet at once, before the first one that is sent at its time. */
  sentBefore({ newcomers }: FrameSource, durationSamples: number): void {
    for (const listener of newcomers) {
      this.#states.get(listener)!.endedAtMs += durationSamples / SAMPLES_PER_MS;
    }
  }

  /** Replaces a listener that goes on with the same frames. */
  replace(before: Listener, after: Listener): void {
    const state = this.#states.get(before);
    if (!state) return;
    this.#states.set(after, state);
    if (state.source.newcomers.has(before)) state.source.newcomers.add(after);
    if (this.#ahead.has(before)) this.#ahead.set(after, state);
  }

  delete(listener: Listener): void {
    this.#states.get(listener)?.source.newcomers.delete(listener);
    this.#states.delete(listener);
    this.#ahead.delete(listener);
  }

  #follow(listener: Listener, source: FrameSource): void {
    const state = this.#states.get(listener);
    if (!state) {
      const begun = {
        source,
        endedAtMs: -Infinity,
        leadMs: 0,
        leftOutAtMs: -Infinity,
        pausedMs: source.pausedMs,
      };
      this.#states.set(listener, begun);
      return;
    }
    const before = state.source;
    if (before === source) return;
    if (!before.newcomers.delete(listener)) {
      takePauses(state);
      state.endedAtMs = before.endsAtMs;
    }
    source.newcomers.add(listener);
    state.source = source;
  }

  /** Counts the frame of a tick that began before the last plan for a listener that has changed to a speaker since. */
  #mixedPast(listener: Listener): void {
    const state = this.#states.get(listener);
    if (!state || state.source === this.#mixes) return;
    if (state.source.newcomers.has(listener)) {
      state.endedAtMs += FRAME_MS;
    } else {
      state.leadMs += FRAME_MS;
      this.#noteLead(listener, state);
    }
  }

  #begin(listener: Listener, nowMs: number): void {
    const state = this.#states.get(listener)!;
    state.leadMs = Math.max(-FRAME_MS, state.leadMs + state.endedAtMs - nowMs);
    state.pausedMs = state.source.pausedMs;
    this.#noteLead(listener, state);
  }

  #noteLead(listener: Listener, state: State): void {
    if (state.leadMs >= FRAME_MS) this.#ahead.set(listener, state);
    else this.#ahead.delete(listener);
  }
}

/** Takes off the lead what a listener has played in pauses of its source. */
function takePauses(state: State): void {
  const { pausedMs } = state.source;
  if (pausedMs > state.pausedMs)
    state.leadMs = Math.max(0, state.leadMs - pausedMs + state.pausedMs);
  state.pausedMs = pausedMs;
}
