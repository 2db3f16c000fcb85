import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { MediaPacket } from '../../rtp/packet.ts';
import { Reorderer } from '../../rtp/reorderer.ts';
import { counts } from '../../counts.ts';
import type { FrameClock } from '../clock.ts';
import { formatAudioFormat, FRAME_SAMPLES } from '../format.ts';
import { forwardFrame } from './forward-frame.ts';
import { type HeardSpeaker, type Listener, planHearing, type PlannedHearing } from './hearing.ts';
import type { MixHost } from './mix-host.ts';
import type { RoomMixing } from './mix-place.ts';
import type { MixOutput, MixPlan, SpeakerId } from './mix-plan.ts';
import { DECODER_MEMORY_PACKETS } from '../opus-codec.ts';
import { emptyOpusPacket, opusPacketSamples } from '../opus-packet.ts';
import { type TalkerSettings, Talkers } from './talkers.ts';
import { type RunningChange, VolumeChanges } from './volume-changes.ts';

export type MixerSettings = { talkers: TalkerSettings; jitterBuffer: JitterBufferLimits };

type Speaker = HeardSpeaker & {
  /** Stands in the head of forwarded frames. */
  number: number;
  stream: Reorderer;
  /** The last packets, for a decoder that must join on. */
  recent: Buffer[];
  /** Who gets this speaker's packets as they are: those who hear nobody else. */
  forwardTo: Listener[];
  /** Its last packet went out to somebody as it is. */
  isHeard: boolean;
};

/** A tick of which not all has come out yet, as a mixing thread may be late: it goes to those who were to hear it when it began. */
type Tick = {
  atMs: number;
  mixes: Map<string, PlannedHearing>;
  forwarded: Map<SpeakerId, Listener[]>;
  /** Those who fall silent in it. */
  leaving: Speaker[];
  changes: RunningChange[];
  /** Those who have changed what they hear since, but can hear this yet. */
  replaced: Set<Listener>;
};

/** What a packet holds that has been let in. */
const samplesOf = (payload: Buffer) => opusPacketSamples(payload) ?? 0;

/**
 * What the WebSocket peers of one room hear. A packet of the room's RTP comes in at {@link receive}; what is heard goes
 * out through `Listener.deliver`: at once where a listener hears one speaker only, whose packets are then untouched, else
 * at the next tick of the clock, out of a mix that is shared by all who hear the same.
 *
 * Who hears what is worked out when it changes, not per packet; the mixing itself is done by a {@link RoomMixing}.
 */
export class Mixer {
  readonly #clock: FrameClock;
  readonly #onTalkersChanged: () => void;
  readonly #room: RoomMixing;
  readonly #speakers = new Map<string, Speaker>();
  readonly #played = new Map<SpeakerId, Speaker>();
  readonly #listeners = new Set<Listener>();
  readonly #talkers: Talkers<Speaker>;
  /** By mix. */
  #mixes = new Map<string, PlannedHearing>();
  #forwardListeners: Listener[] = [];
  readonly #changes = new VolumeChanges();
  #nextId: SpeakerId = 1;
  /** When the last packet came, or the clock ticked. */
  #nowMs = 0;
  /** Those of which not all has come out, the oldest first: one at most, but for threads that are late. */
  #ticks: Tick[] = [];
  #isClosed = false;

  /** @param onTalkersChanged called when somebody has begun or ceased to talk */
  constructor(
    host: MixHost,
    clock: FrameClock,
    settings: MixerSettings,
    onTalkersChanged: () => void,
  ) {
    this.#onTalkersChanged = onTalkersChanged;
    this.#clock = clock;
    this.#room = host.openRoom(settings.jitterBuffer, this.#output, this.#ticked);
    this.#talkers = new Talkers(settings.talkers);
  }

  /** Who talks now, with the level in dBov (0 is the loudest, negative below). */
  speaking(): { peer: string; level_dbov: number }[] {
    return this.#talkers
      .levels()
      .map(([speaker, level]) => ({ peer: speaker.peer, level_dbov: -level }));
  }

  addListener(listener: Listener): void {
    this.#listeners.add(listener);
    this.#plan();
  }

  removeListener(listener: Listener): void {
    this.#changes.delete(listener);
    if (this.#listeners.delete(listener)) this.#plan();
  }

  /** Somebody hears the room in another way from now on; louder and softer come gradually. */
  replaceListener(before: Listener, after: Listener): void {
    if (!this.#listeners.delete(before)) return;
    this.#listeners.add(after);
    this.#changes.begin(before, after, this.#mixed(), (name) =>
      this.#ticks.some((tick) => tick.mixes.has(name)),
    );
    const canHear =
      before.delivery === after.delivery &&
      formatAudioFormat(before.format) === formatAudioFormat(after.format);
    if (canHear) for (const tick of this.#ticks) tick.replaced.add(before);
    this.#plan();
  }

  /** Makes `peer` heard; its packets come in at {@link receive}. */
  addSpeaker(peer: string, number: number): void {
    this.removeSpeaker(peer);
    this.#speakers.set(peer, {
      id: this.#nextId,
      peer,
      number,
      stream: new Reorderer(),
      recent: [],
      forwardTo: [],
      isHeard: false,
      isLong: false,
      isPlayed: false,
    });
    this.#nextId += 1;
  }

  removeSpeaker(peer: string): void {
    const speaker = this.#speakers.get(peer);
    if (!speaker) return;
    this.#speakers.delete(peer);
    if (this.#talkers.delete(speaker)) this.#talkersChanged();
  }

  /** Takes one RTP packet of a speaker. The hot path: runs for every packet in the room. */
  receive(peer: string, packet: MediaPacket, nowMs: number): void {
    const speaker = this.#speakers.get(peer);
    if (!speaker) return;
    this.#nowMs = nowMs;
    const durationSamples = opusPacketSamples(packet.payload);
    if (durationSamples === undefined) {
      counts.dropped.undecodable += 1;
      return;
    }
    const { audioLevel } = packet;
    if (this.#talkers.heard(speaker, audioLevel, durationSamples, nowMs)) this.#talkersChanged();
    if (!this.#talkers.isTalking(speaker)) return;
    if (speaker.isPlayed) this.#play(speaker, packet, nowMs);
    const isInTime = speaker.stream.insert(packet, nowMs);
    // Who is played has a jitter buffer, which counts for itself.
    if (!isInTime && !speaker.isPlayed) counts.dropped.late += 1;
    this.#forward(speaker, nowMs);
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

  /** Sends on what is in its turn, to those who hear this speaker alone, and to those who hear each apart. */
  #forward(speaker: Speaker, nowMs: number): void {
    const { stream, recent } = speaker;
    for (let next = stream.take(nowMs); next; next = stream.take(nowMs)) {
      const before = recent.at(-1);
      // Before the first packet there is nothing of which one could be missed.
      if (next === 'lost' && !before) continue;
      const payload = next === 'lost' ? emptyOpusPacket(before!) : next.payload;
      speaker.isLong ||= samplesOf(payload) > FRAME_SAMPLES;
      recent.push(payload);
      if (recent.length > DECODER_MEMORY_PACKETS) recent.shift();
      if (!speaker.isPlayed) {
        speaker.isHeard = speaker.forwardTo.length > 0;
        for (const listener of speaker.forwardTo) listener.deliver(payload);
        if (next === 'lost') this.#concealed(speaker, samplesOf(payload));
      }
      if (this.#forwardListeners.length > 0) this.#forwardApart(speaker, payload);
    }
  }

  #forwardApart(speaker: Speaker, payload: Buffer): void {
    const frame = forwardFrame(speaker.number, payload);
    for (const listener of this.#forwardListeners) {
      if (listener.peer !== speaker.peer) listener.deliver(frame);
    }
  }

  /** Tells all who hear a speaker that so much of it was made up. */
  #concealed(speaker: Speaker, samples: number): void {
    counts.concealedSamples += samples;
    for (const listener of speaker.forwardTo) listener.concealed(samples);
    for (const { planned, listeners } of this.#mixes.values()) {
      if (planned.without.includes(speaker.id)) continue;
      for (const ofFormat of listeners.values()) {
        for (const listener of ofFormat) listener.concealed(samples);
      }
    }
  }

  #play(speaker: Speaker, packet: MediaPacket, nowMs: number): void {
    const { sequenceNumber, timestamp, payload } = packet;
    const durationSamples = samplesOf(payload);
    this.#room.insert(speaker.id, { sequenceNumber, timestamp, payload, durationSamples }, nowMs);
  }

  #talkersChanged(): void {
    this.#plan();
    this.#onTalkersChanged();
  }

  /** Works out anew who hears what: after a change of the listeners, or of who is mixed. */
  #plan(): void {
    if (this.#isClosed) return;
    const mixed = this.#mixed();
    for (const speaker of mixed) speaker.forwardTo = [];
    for (const speaker of this.#speakers.values()) {
      speaker.forwardTo = [];
      if (this.#talkers.isTalking(speaker)) continue;
      // Whoever talks again begins anew.
      speaker.stream.clear();
      speaker.recent = [];
      speaker.isHeard = false;
    }
    const { mixes, asSent, apart } = planHearing(this.#listeners, mixed, this.#changes.running);
    this.#mixes = mixes;
    this.#forwardListeners = apart;
    for (const [speaker, listeners] of asSent) speaker.forwardTo = listeners;
    this.#planRoom(mixed);
    if (this.#isSilent) {
      this.#clock.remove(this.#tick);
      this.#changes.clear();
    } else {
      this.#clock.add(this.#tick);
    }
  }

  /** Those who are mixed, or fall silent in the next tick, always in the same order. */
  #mixed(): Speaker[] {
    return [...this.#talkers.mixed, ...this.#leaving()].toSorted((a, b) => a.id - b.id);
  }

  /** Nobody talks, and nobody is still to fall silent. */
  get #isSilent(): boolean {
    return this.#talkers.isSilent && this.#played.size === 0;
  }

  /** Tells the mixing half. Who is mixed for anybody is played until it falls silent, so that its packets go on evenly. */
  #planRoom(mixed: Speaker[]): void {
    const mixes = [...this.#mixes.values()].map(({ planned }) => planned);
    const added: Speaker[] = [];
    for (const speaker of mixed) {
      const isMixed = mixes.some(
        ({ without, gainsBefore }) =>
          !without.includes(speaker.id) || gainsBefore.some(([id]) => id === speaker.id),
      );
      if (isMixed && !speaker.isPlayed) added.push(speaker);
    }
    const played = mixed.filter((speaker) => speaker.isPlayed || added.includes(speaker));
    const plan: MixPlan = {
      speakers: played.map(({ id }) => id),
      leaving: this.#leaving().map(({ id }) => id),
      added: added.map(({ id, recent, isHeard, stream }) => ({
        id,
        recent: [...recent],
        isHeard,
        next: stream.next,
      })),
      mixes,
    };
    this.#room.apply(plan);
    for (const speaker of added) {
      speaker.isPlayed = true;
      this.#played.set(speaker.id, speaker);
      for (const packet of speaker.stream.waiting) this.#play(speaker, packet, this.#nowMs);
    }
  }

  /** Those who are played, and mixed no longer: they fall silent in the next tick. */
  #leaving(): Speaker[] {
    return [...this.#played.values()].filter((speaker) => !this.#talkers.mixed.has(speaker));
  }

  #deliver(listeners: Listener[] | undefined, frame: Buffer, { replaced }: Tick): void {
    if (!listeners) return;
    for (const listener of listeners) {
      if (this.#listeners.has(listener) || replaced.has(listener)) listener.deliver(frame);
    }
  }

  readonly #output: MixOutput = {
    mixed: (name, format, frame) => {
      const [tick] = this.#ticks;
      if (!tick) return;
      this.#deliver(tick.mixes.get(name)?.listeners.get(format), frame, tick);
      for (const change of tick.changes) change.isHeard ||= change.name === name;
    },
    concealed: (id, samples) => {
      const speaker = this.#played.get(id);
      if (speaker) this.#concealed(speaker, samples);
    },
    passed: (id, packet) => {
      const [tick] = this.#ticks;
      if (tick) this.#deliver(tick.forwarded.get(id), packet, tick);
    },
  };

  readonly #tick = (nowMs: number): void => {
    this.#nowMs = nowMs;
    for (const speaker of this.#speakers.values()) {
      if (this.#talkers.isTalking(speaker)) this.#forward(speaker, nowMs);
    }
    // A thread is late with what falls silent in the last tick: it must not do so twice.
    if (this.#ticks.filter((tick) => this.#removeSilent(tick)).length > 0) this.#plan();
    const forwarded = [...this.#played].map(([id, { forwardTo }]) => [id, forwardTo] as const);
    this.#ticks.push({
      atMs: nowMs,
      mixes: this.#mixes,
      forwarded: new Map(forwarded),
      leaving: this.#leaving(),
      changes: [...this.#changes.running.values()],
      replaced: new Set(),
    });
    if (this.#played.size > 0) this.#room.tick(nowMs);
    else this.#ticked();
  };

  /** All that a tick has made has come out. Now, so that what opens for the next plan is open by the next tick. */
  readonly #ticked = (): void => {
    const tick = this.#ticks.shift();
    if (!tick) return;
    const hasLeft = this.#removeSilent(tick);
    const hasChanged = this.#changes.ticked(tick.changes);
    if (this.#talkers.expire(tick.atMs)) this.#talkersChanged();
    else if (hasLeft || hasChanged) this.#plan();
  };

  /** Plays those who fall silent in a tick no longer. @returns whether there were any */
  #removeSilent(tick: Tick): boolean {
    const left = tick.leaving.filter((speaker) => !this.#talkers.mixed.has(speaker));
    tick.leaving = [];
    for (const speaker of left) {
      this.#played.delete(speaker.id);
      speaker.isPlayed = false;
      speaker.isHeard = false;
    }
    return left.length > 0;
  }
}
