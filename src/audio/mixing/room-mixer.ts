import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { MediaPacket } from '../../rtp/packet.ts';
import { counters } from '../../counters.ts';
import { TickMoment } from './arrivals.ts';
import type { FrameClock } from '../clock.ts';
import { formatAudioFormat } from '../format.ts';
import { forwardFrame } from './forward-frame.ts';
import {
  type Ear,
  isMixed,
  type Listener,
  planSubscriptions,
  type PlannedSubscription,
} from './subscriptions.ts';
import { ListenerLeads } from './listener-leads.ts';
import { exchangeListener } from './listener-order.ts';
import type { MixEnginePool } from './mix-engine-pool.ts';
import type { MixEngine } from './mix-engine.ts';
import type { MixOutput, MixPlan, Opening, SpeakerId } from './mix-plan.ts';
import type { LateBeginning } from './late-beginning.ts';
import { HeardRecorder } from './heard-recorder.ts';
import { isCelt, opusPacketSamples } from '../opus-packet.ts';
import { RoomSpeaker } from './room-speaker.ts';
import { type ActiveSpeakerSettings, ActiveSpeakers } from './active-speakers.ts';
import { type RunningChange, VolumeChanges } from './volume-changes.ts';

export type MixerSettings = {
  activeSpeakers: ActiveSpeakerSettings;
  jitterBuffer: JitterBufferLimits;
};

/** Maximum time for which the pause of a speaker is still sent to listeners that hear no other speaker, ms. */
const MAX_PAUSE_MS = 60_000;
/** Number of pausing speakers whose packets still go to listeners with `delivery=forward`. */
const MAX_PAUSING = 8;

/**
 * A tick whose output is incomplete, as a mixing thread may be late. Its frames go to the listeners that were subscribed
 * when it began.
 */
type Tick = {
  mixes: Map<string, PlannedSubscription>;
  forwarded: Map<SpeakerId, ReadonlySet<Listener>>;
  /** Speakers whose sound ends in this tick. */
  leaving: Speaker[];
  /** Speakers with whose packets a decoder may begin after this tick, and the reason. */
  openings: Map<Speaker, Opening>;
  changes: RunningChange[];
  /** Listeners whose subscription changed after this tick began but whose format did not; they still get its frames. */
  replaced: Set<Listener>;
};

type Speaker = RoomSpeaker;

const NOBODY: ReadonlySet<never> = new Set();

/**
 * Mixer of one room, for its WebSocket peers. A packet of the room's RTP comes in at {@link receive}; frames go
 * out through `Listener.deliver`: at once where a listener hears one speaker only, whose packets are then untouched, else
 * at the next tick of the clock, out of a mix that is shared by all listeners that hear the same.
 *
 * Subscriptions are computed when they change, not per packet; the mixing itself is done by a {@link MixEngine}.
 */
export class RoomMixer {
  readonly #host: MixEnginePool;
  readonly #clock: FrameClock;
  readonly #onActiveSpeakersChanged: () => void;
  readonly #room: MixEngine;
  readonly #speakers = new Map<string, Speaker>();
  readonly #played = new Map<SpeakerId, Speaker>();
  /** Listeners in the order in which they get individual mixes. */
  #listeners = new Set<Listener>();
  /** Listeners that have been sent something. */
  readonly #begun = new WeakSet<Listener>();
  readonly #activeSpeakers: ActiveSpeakers<Speaker>;
  readonly #heardRecorder = new HeardRecorder();
  readonly #leads = new ListenerLeads();
  readonly #moment = new TickMoment();
  /** Listeners by mix. */
  #mixes = new Map<string, PlannedSubscription>();
  /** Speakers that have talked and pause, the last one first. */
  #pausing: Speaker[] = [];
  readonly #changes = new VolumeChanges();
  /** True if the talking speakers, but not the mixed ones, have changed since the last plan. */
  #isPlanDue = false;
  /** State of the active speakers in the last plan. */
  #isTicking = false;
  #plannedVersion = 0;
  #nextId: SpeakerId = 1;
  /** Time of the last packet or tick. */
  #nowMs = 0;
  /** Ticks whose output is incomplete, oldest first. At most one, unless a mixing thread is late. */
  #ticks: Tick[] = [];
  #isClosed = false;

  /** @param onActiveSpeakersChanged called when a speaker has begun or stopped talking */
  constructor(
    host: MixEnginePool,
    clock: FrameClock,
    settings: MixerSettings,
    onActiveSpeakersChanged: () => void,
  ) {
    this.#onActiveSpeakersChanged = onActiveSpeakersChanged;
    this.#clock = clock;
    this.#host = host;
    this.#room = host.openRoom(settings.jitterBuffer, this.#output, this.#ticked);
    this.#activeSpeakers = new ActiveSpeakers(settings.activeSpeakers);
  }

  /** Returns the peers that talk now, with the level in dBov (0 is the loudest, negative below). */
  speaking(): { peer: string; level_dbov: number }[] {
    return this.#activeSpeakers
      .levels()
      .map(([speaker, level]) => ({ peer: speaker.peer, level_dbov: -level }));
  }

  addListener(listener: Listener): void {
    this.#listeners.add(listener);
    this.#plan();
  }

  removeListener(listener: Listener): void {
    this.#changes.delete(listener);
    this.#leads.delete(listener);
    if (this.#listeners.delete(listener)) this.#plan();
  }

  /** Changes the subscription of a listener; gains change gradually. `hasMissed` if its decoder lacks what it was sent last. */
  updateListener(before: Listener, after: Listener, hasMissed = false): void {
    if (!this.#listeners.has(before)) return;
    this.#listeners = exchangeListener(this.#listeners, before, after);
    if (this.#begun.has(before)) this.#begun.add(after);
    this.#changes.begin(before, after, this.#mixed(), (name) =>
      this.#ticks.some((tick) => tick.mixes.has(name)),
    );
    const canHear =
      !hasMissed &&
      before.delivery === after.delivery &&
      formatAudioFormat(before.format) === formatAudioFormat(after.format);
    if (canHear) this.#heardRecorder.replace(before, after);
    if (canHear) this.#leads.replace(before, after);
    this.#leads.delete(before);
    if (canHear) for (const tick of this.#ticks) tick.replaced.add(before);
    if (canHear) for (const speaker of this.#heard()) speaker.replace(before, after);
    this.#plan();
  }

  /** Adds a speaker, whose packets are passed to {@link receive}. */
  addSpeaker(peer: string, number: number): void {
    this.removeSpeaker(peer);
    this.#speakers.set(peer, new RoomSpeaker(this.#nextId, peer, number, this.#leads));
    this.#nextId += 1;
  }

  /** Sets whether the packets of a speaker come from a pacer of this node: none of these counts as too early. */
  setPaced(peer: string, isPaced: boolean): void {
    const speaker = this.#speakers.get(peer);
    if (speaker) speaker.punctuality.isPaced = isPaced;
  }

  hasSpeaker(peer: string): boolean {
    return this.#speakers.has(peer);
  }

  /** Prepares for the first packet of another stream of a speaker, from another encoder; listeners hear no gap. */
  cutSpeaker(peer: string): void {
    this.#speakers.get(peer)?.splice.cut();
  }

  /** Prepares for the first packet of a speaker's stream, which began before; its packets come here since `sinceMs`. */
  enterStream(peer: string, sinceMs: number): void {
    this.#speakers.get(peer)?.enterStream(sinceMs);
  }

  removeSpeaker(peer: string): void {
    const speaker = this.#speakers.get(peer);
    if (!speaker) return;
    this.#speakers.delete(peer);
    this.#pausing = this.#pausing.filter((other) => other !== speaker);
    if (this.#activeSpeakers.delete(speaker)) this.#changeActiveSpeakers();
  }

  /** Opens an encoder of the next packets of a speaker for decoders that have missed the last ones of its stream; undefined if none exist. */
  openLateBeginning(peer: string): Promise<LateBeginning | undefined> | undefined {
    const speaker = this.#speakers.get(peer);
    if (!speaker || speaker.splice.isCut || speaker.recent.length === 0) return undefined;
    return this.#host.openLateBeginning(speaker.recent);
  }

  /**
   * Mutes or unmutes a speaker whose packets do not arrive here while it is muted.
   * @param isNew true if another stream begins with its next packet
   */
  setMuted(peer: string, isMuted: boolean, nowMs: number, isNew = false): void {
    const speaker = this.#speakers.get(peer);
    if (!speaker) return;
    speaker.isMutedElsewhere = false;
    if (speaker.isMuted === isMuted) return;
    if (!isMuted) {
      speaker.unmute(isNew, nowMs);
      return;
    }
    speaker.isMuted = true;
    speaker.isWithheld = true;
    this.#silence(speaker);
  }

  /**
   * Notes that a speaker on another node is muted there, so that its packets do not arrive, or no longer muted.
   * @param isNew true if another stream begins with its next packet
   */
  setMutedElsewhere(peer: string, isMuted: boolean, nowMs: number, isNew = false): void {
    this.#speakers.get(peer)?.setMutedElsewhere(isMuted, nowMs, isNew);
  }

  /**
   * Takes one RTP packet of a speaker. The hot path: runs for every packet in the room.
   * @param isMuted true if no listener may hear it; decoders need it for the packets that follow
   */
  receive(peer: string, received: MediaPacket, nowMs: number, isMuted = false): void {
    const speaker = this.#speakers.get(peer);
    if (!speaker) return;
    this.#nowMs = nowMs;
    const packet = speaker.splice.join(received, nowMs);
    const durationSamples = opusPacketSamples(packet.payload);
    if (durationSamples === undefined) {
      counters.dropped.undecodable += 1;
      return;
    }
    const isFirstLong = speaker.noteLength(durationSamples);
    // Muted packets count, too: decoders that begin later are given them.
    if (speaker.staysWithheld(packet.timestamp, isCelt(packet.payload), nowMs) || isMuted) {
      this.#withhold(speaker, packet, durationSamples, nowMs);
      return;
    }
    speaker.isWithheld = false;
    const { audioLevel } = packet;
    const isInTime = speaker.insert(packet, nowMs, durationSamples);
    // A mixed speaker has a jitter buffer, which counts its own losses.
    if (!isInTime && !speaker.isPlayed) counters.dropped.late += 1;
    if (speaker.isPlayed) this.#play(speaker, packet, durationSamples, nowMs);
    if (this.#activeSpeakers.heard(speaker, audioLevel, durationSamples, nowMs)) {
      if (this.#mayPlanLater) this.#isPlanDue = true;
      else this.#plan();
      this.#onActiveSpeakersChanged();
    }
    // Not all listeners that are sent its packets take long ones.
    else if (isFirstLong) this.#plan();
    const isTalking = this.#activeSpeakers.isTalking(speaker);
    if (isTalking) speaker.talkedAtMs = nowMs;
    if (speaker.noteArrival(nowMs)) this.#plan();
    this.#forward(speaker, isTalking, nowMs);
    if (!isTalking && nowMs - speaker.talkedAtMs > MAX_PAUSE_MS) this.#endPause(speaker);
  }

  #withhold(speaker: Speaker, packet: MediaPacket, durationSamples: number, nowMs: number): void {
    const wasWithheld = speaker.isWithheld;
    speaker.withhold(packet, nowMs, durationSamples);
    if (!wasWithheld) this.#silence(speaker);
  }

  /** Ends the talk of a speaker, and the pause after it in which its packets are still sent. */
  #silence(speaker: Speaker): void {
    if (this.#activeSpeakers.end(speaker)) this.#changeActiveSpeakers();
    else if (this.#pausing.includes(speaker)) this.#plan();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#clock.remove(this.#tick);
    this.#room.close();
    this.#listeners.clear();
    this.#speakers.clear();
    this.#played.clear();
    this.#changes.clear();
    this.#mixes.clear();
    this.#ticks = [];
  }

  /** Sends the packets of a speaker that are next in order. */
  #forward(speaker: Speaker, isTalking: boolean, nowMs: number): void {
    speaker.forward(!isTalking, nowMs, (samples) => this.#concealed(speaker, samples));
    if (speaker.updateNeedsMix(nowMs)) this.#plan();
  }

  /** Reports concealed samples of a speaker to all of its listeners. */
  #concealed(speaker: Speaker, samples: number): void {
    counters.concealedSamples += samples;
    for (const listener of speaker.followers) listener.concealed(samples);
    for (const { planned, ears } of this.#mixes.values()) {
      if (planned.without.includes(speaker.id)) continue;
      for (const ofFormat of ears.values()) {
        for (const { listener } of ofFormat) listener.concealed(samples);
      }
    }
  }

  #play(speaker: Speaker, packet: MediaPacket, durationSamples: number, nowMs: number): void {
    const { sequenceNumber, timestamp, payload } = packet;
    this.#room.insert(speaker.id, { sequenceNumber, timestamp, payload, durationSamples }, nowMs);
  }

  #changeActiveSpeakers(): void {
    this.#plan();
    this.#onActiveSpeakersChanged();
  }

  /**
   * True if the mixed speakers are the same as in the last plan, and there will be a tick. In a room of hundreds of open
   * microphones some are loud for a moment in every tick.
   */
  get #mayPlanLater(): boolean {
    return this.#isTicking && this.#plannedVersion === this.#activeSpeakers.mixedVersion;
  }

  /**
   * Computes all subscriptions after a change of the listeners or of the mixed speakers.
   * @param open speakers with whose packets decoders may begin now
   */
  #plan(open: ReadonlySet<Speaker> = NOBODY): void {
    if (this.#isClosed) return;
    this.#isPlanDue = false;
    this.#isTicking = !this.#isSilent;
    this.#plannedVersion = this.#activeSpeakers.mixedVersion;
    this.#notePauses();
    const mixed = this.#mixed();
    const { mixes, asSent, apart, limited } = planSubscriptions(this.#listeners, {
      mixed,
      pausing: this.#pausing,
      open,
      begun: this.#begun,
      changes: this.#changes.running,
    });
    this.#mixes = mixes;
    this.#heardRecorder.plan(mixes);
    this.#leads.plan(mixes, asSent, mixed);
    this.#noteAwaited(mixed);
    this.#planRoom(mixed);
    for (const listeners of asSent.values()) this.#noteBegun(listeners);
    for (const { ears } of mixes.values()) {
      for (const ofFormat of ears.values()) this.#noteBegun(ofFormat.map((ear) => ear.listener));
    }
    for (const speaker of this.#heard()) {
      speaker.followers = asSent.get(speaker) ?? NOBODY;
      this.#heardRecorder.sent(speaker.followers, speaker.id);
      speaker.apartFollowers = apart.get(speaker) ?? NOBODY;
    }
    if (this.#isSilent) {
      this.#clock.remove(this.#tick);
      this.#changes.clear();
    } else if (this.#mixesNothing) {
      this.#clock.share(this.#tick);
    } else if (!this.#clock.isApart(this.#tick)) {
      this.#clock.add(this.#tick, this.#moment.of(this.#activeSpeakers.mixed));
    }
    for (const listener of limited) listener.volumeLimited?.();
  }

  /** Notes since when listeners have waited for a pause of each speaker. */
  #noteAwaited(mixed: Speaker[]): void {
    for (const speaker of mixed) {
      if (!this.#earsOf(speaker).some(({ awaits }) => awaits === speaker.id)) {
        speaker.awaitedSinceMs = undefined;
      } else {
        speaker.awaitedSinceMs ??= this.#nowMs;
      }
    }
  }

  /** Returns the ears that hear a speaker in a mix. */
  #earsOf({ id }: Speaker): Ear[] {
    return [...this.#mixes.values()]
      .filter(({ planned }) => !planned.without.includes(id))
      .flatMap(({ ears }) => [...ears.values()].flat());
  }

  #noteBegun(listeners: Iterable<Listener>): void {
    for (const listener of listeners) this.#begun.add(listener);
  }

  /** Notes the speakers that have stopped talking since the last plan and are not played any more. */
  #notePauses(): void {
    const isPausing = (speaker: Speaker) =>
      !this.#activeSpeakers.isTalking(speaker) && !speaker.isPlayed && !speaker.isWithheld;
    const still = this.#pausing.filter(isPausing);
    const begun = [...this.#speakers.values()].filter(
      (speaker) =>
        isPausing(speaker) &&
        !still.includes(speaker) &&
        this.#nowMs - speaker.talkedAtMs <= MAX_PAUSE_MS,
    );
    this.#pausing = [...begun, ...still]
      .toSorted((one, other) => other.talkedAtMs - one.talkedAtMs)
      .slice(0, MAX_PAUSING);
  }

  #endPause(speaker: Speaker): void {
    if (!this.#pausing.includes(speaker)) return;
    this.#pausing = this.#pausing.filter((other) => other !== speaker);
    this.#plan();
  }

  /** Returns the speakers that are mixed, or end in the next tick, always in the same order. */
  #mixed(): Speaker[] {
    return [...this.#activeSpeakers.mixed, ...this.#leaving()].toSorted((a, b) => a.id - b.id);
  }

  /** Returns the speakers of the room, and those that have left but are played until the next tick. */
  #heard(): ReadonlySet<Speaker> {
    return new Set([...this.#speakers.values(), ...this.#played.values()]);
  }

  /** True if no speaker talks or ends in the next tick. */
  get #isSilent(): boolean {
    return this.#activeSpeakers.isSilent && this.#played.size === 0;
  }

  /** True while packets are at most passed on: a tick then only finds missing packets, and speakers that have stopped. */
  get #mixesNothing(): boolean {
    return this.#played.size === 0 && this.#ticks.length === 0 && this.#changes.running.size === 0;
  }

  /**
   * Sends the plan to the mix engine. A speaker that is mixed for any listener is played until it stops talking, so that
   * its packets are consumed evenly.
   */
  #planRoom(mixed: Speaker[]): void {
    const mixes = [...this.#mixes.values()].map(({ planned }) => planned);
    const added = mixed.filter(({ id, isPlayed }) => !isPlayed && isMixed(id, this.#mixes));
    const played = mixed.filter((speaker) => speaker.isPlayed || added.includes(speaker));
    const plan: MixPlan = {
      speakers: played.map(({ id }) => id),
      leaving: this.#leaving().map(({ id }) => id),
      added: added.map((speaker) => speaker.beginPlaying(this.#nowMs)),
      mixes,
    };
    const isFirst = this.#played.size === 0 && added.length > 0;
    this.#moveTicks(isFirst ? this.#moment.of(this.#activeSpeakers.mixed) : undefined);
    this.#room.apply(plan);
    for (const speaker of added) {
      speaker.isPlayed = true;
      this.#played.set(speaker.id, speaker);
      for (const packet of speaker.waiting) {
        this.#play(speaker, packet, opusPacketSamples(packet.payload) ?? 0, this.#nowMs);
      }
    }
  }

  #moveTicks(dueMs: number | undefined): void {
    if (dueMs !== undefined) this.#clock.move(this.#tick, dueMs);
  }

  /** Returns the speakers that are played but no longer mixed: they end in the next tick. */
  #leaving(): Speaker[] {
    return [...this.#played.values()].filter((speaker) => !this.#activeSpeakers.mixed.has(speaker));
  }

  #deliver(ears: Ear[] | undefined, frame: Buffer, tick: Tick): void {
    if (!ears) return;
    for (const { listener, number } of ears) {
      if (!this.#hears(listener, tick)) continue;
      listener.deliver(number === undefined ? frame : forwardFrame(number, frame));
    }
  }

  #hears(listener: Listener, { replaced }: Tick): boolean {
    return this.#listeners.has(listener) || replaced.has(listener);
  }

  readonly #output: MixOutput = {
    mixed: (name, format, frame, atMs = this.#nowMs) => {
      const [tick] = this.#ticks;
      if (!tick) return;
      const ears = tick.mixes.get(name)?.ears.get(format);
      if (ears) this.#leads.mixed(name, { format, ears }, atMs, tick.mixes !== this.#mixes);
      this.#deliver(ears, frame, tick);
      for (const change of tick.changes) change.isHeard ||= change.name === name;
    },
    concealed: (id, samples) => {
      const speaker = this.#played.get(id);
      if (speaker) this.#concealed(speaker, samples);
    },
    passed: (id, packet, _restSamples, atMs = this.#nowMs) => {
      const [tick] = this.#ticks;
      const speaker = this.#played.get(id);
      if (!tick || !speaker) return;
      const followers = tick.forwarded.get(id) ?? NOBODY;
      speaker.passed(packet, atMs, followers);
      for (const listener of followers) if (this.#hears(listener, tick)) listener.deliver(packet);
    },
    paused: (id, why) => {
      const speaker = this.#played.get(id);
      if (speaker) this.#ticks[0]?.openings.set(speaker, why);
    },
  };

  readonly #tick = (tickMs: number, nowMs = tickMs): void => {
    this.#nowMs = nowMs;
    for (const speaker of this.#speakers.values()) {
      if (this.#activeSpeakers.isTalking(speaker)) this.#forward(speaker, true, nowMs);
    }
    // A late thread may still have to report a speaker that ended in the last tick: it must not end
    // twice.
    for (const tick of this.#ticks) this.#endLeaving(tick);
    const hasEnded = this.#activeSpeakers.expire(nowMs);
    const plansBefore = this.#played.size === 0 || this.#leaving().length > 0;
    // A mixed speaker that stops talking ends in this tick. The end of another is planned after it:
    // new mixes have no encoder yet.
    if (hasEnded && plansBefore) this.#changeActiveSpeakers();
    else if (this.#isPlanDue && !hasEnded) this.#plan();
    if (this.#mixesNothing) {
      this.#heardRecorder.tick(this.#mixes);
      if (!this.#isSilent) this.#clock.share(this.#tick);
      return;
    }
    this.#ticks.push({
      mixes: this.#mixes,
      forwarded: new Map([...this.#played].map(([id, { followers }]) => [id, followers])),
      leaving: this.#leaving(),
      openings: new Map(),
      changes: [...this.#changes.running.values()],
      replaced: new Set(),
    });
    this.#heardRecorder.tick(this.#mixes);
    const move = this.#moment.better(this.#played.values(), tickMs);
    if (move?.isLater) this.#clock.postpone(this.#tick, move.dueMs);
    else this.#moveTicks(move?.dueMs);
    // A tick without a speaker must also wait for earlier ticks, which a late thread may not have
    // completed.
    if (this.#played.size > 0 || this.#ticks.length > 1)
      this.#room.tick(nowMs, this.#moment.noteTick(tickMs));
    else this.#ticked();
    if (hasEnded && !plansBefore) this.#changeActiveSpeakers();
  };

  /** Handles the complete output of a tick, at once, so that codecs for the next plan are open by the next tick. */
  readonly #ticked = (): void => {
    const tick = this.#ticks.shift();
    if (!tick) return;
    this.#endLeaving(tick);
    const hasChanged = this.#changes.ticked(tick.changes);
    if (hasChanged) this.#plan();
    for (const speaker of this.#activeSpeakers.mixed) {
      const opening = tick.openings.get(speaker);
      const isWithinLong = speaker.isLong && opening === undefined;
      const isAwaited = () => speaker.isAwaitedTooLong(this.#nowMs, opening === 'alike');
      const isOpen = opening === 'pause' || (!isWithinLong && isAwaited());
      if (isOpen) this.#open(speaker, opening);
    }
  };

  /** Ends the playout of speakers that ended in a tick. */
  #endLeaving(tick: Tick): void {
    const left = tick.leaving.filter((speaker) => !this.#activeSpeakers.mixed.has(speaker));
    tick.leaving = [];
    if (left.length > 0) this.#endPlaying(left);
  }

  /**
   * Switches speakers from a mix to forwarding, for the listeners that hear them alone.
   * @param first called before the packets are sent that the mixes have not reached
   */
  #endPlaying(speakers: Speaker[], first = () => {}): void {
    const heardApart = speakers.map(({ apartFollowers }) => apartFollowers);
    for (const speaker of speakers) {
      this.#played.delete(speaker.id);
      speaker.isPlayed = false;
    }
    this.#plan(new Set(speakers));
    first();
    for (const [i, speaker] of speakers.entries()) speaker.endPlaying(heardApart[i]!, this.#nowMs);
  }

  /** Lets listeners that hear a speaker in a mix continue with its packets as sent: it pauses, or has not paused for too long. */
  #open(speaker: Speaker, opening: Opening | undefined): void {
    // A mixing thread may have processed later ticks than those reported here.
    if (!speaker.isPlayed || !this.#activeSpeakers.mixed.has(speaker) || this.#ticks.length > 0)
      return;
    const ears = this.#earsOf(speaker);
    if (!ears.some(({ awaits }) => awaits === speaker.id)) return;
    const { followers, apartFollowers } = speaker;
    const repeat = () => {
      if (opening === 'pause') speaker.repeatLast(followers, apartFollowers, this.#nowMs);
    };
    if (ears.every(({ awaits }) => awaits === speaker.id)) {
      this.#endPlaying([speaker], repeat);
    } else if (!speaker.isLong) {
      // Long packets cannot be sent at the pace of the mix that others hear.
      this.#plan(new Set([speaker]));
      repeat();
    }
  }
}
