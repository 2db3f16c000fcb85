import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { MediaPacket } from '../../rtp/packet.ts';
import { Reorderer } from '../../rtp/reorderer.ts';
import { counts } from '../../counts.ts';
import type { FrameClock } from '../clock.ts';
import { type AudioFormat, type Delivery, formatAudioFormat, FRAME_SAMPLES } from '../format.ts';
import type { MixHost } from './mix-host.ts';
import type { MixRoom } from './mix-place.ts';
import type { MixOutput, MixPlan, PlannedMix, SpeakerId } from './mix-plan.ts';
import { emptyOpusPacket, opusPacketSamples } from '../opus-packet.ts';
import { type TalkerSettings, Talkers } from './talkers.ts';

export type MixerSettings = { talkers: TalkerSettings; jitterBuffer: JitterBufferLimits };

/** How somebody hears the room. */
export type Hearing = {
  format: AudioFormat;
  delivery: Delivery;
  /** By peer: what its sound is multiplied by; 1 for who is not in it. */
  volume: Record<string, number>;
};

/** Somebody who hears the room over a WebSocket. */
export type Listener = Hearing & {
  /** The peer, who never hears himself: the same name as that of his {@link Speaker}. */
  peer: string;
  /** Takes one binary frame in the listener's format. */
  deliver(frame: Buffer): void;
  /** So much of what it hears was made up. */
  concealed(samples: number): void;
};

type Speaker = {
  id: SpeakerId;
  peer: string;
  /** Stands in the head of forwarded frames. */
  number: number;
  stream: Reorderer;
  /** The last packets, for a decoder that must join on. */
  recent: Buffer[];
  /** Who gets this speaker's packets as they are: those who hear nobody else. */
  forwardTo: Listener[];
  /** Its last packet went out to somebody as it is. */
  isHeard: boolean;
  /** Its packets last longer than a tick: they cannot go out as they are at the pace of the mix. */
  isLong: boolean;
  /** Mixed for somebody, and so played: forwarded at the pace of the mix, until it falls silent. */
  isPlayed: boolean;
};

const FORWARD_VERSION = 1;
/** A decoder needs so many packets to catch up with what its encoder leans on. */
const RECENT_PACKETS = 4;

/**
 * What the WebSocket peers of one room hear. A packet of the room's RTP comes in at {@link receive}; what is heard goes
 * out through `Listener.deliver`: at once where a listener hears one speaker only, whose packets are then untouched, else
 * at the next tick of the clock, out of a mix that is shared by all who hear the same.
 *
 * Who hears what is worked out when it changes, not per packet; the mixing itself is done by a {@link MixRoom}.
 */
export class Mixer {
  readonly #clock: FrameClock;
  readonly #onTalkersChanged: () => void;
  readonly #room: MixRoom;
  readonly #speakers = new Map<string, Speaker>();
  readonly #played = new Map<SpeakerId, Speaker>();
  readonly #listeners = new Set<Listener>();
  readonly #talkers: Talkers<Speaker>;
  /** Who hears what: by mix, and then by format. */
  #mixes = new Map<string, { planned: PlannedMix; listeners: Map<string, Listener[]> }>();
  #forwardListeners: Listener[] = [];
  #nextId: SpeakerId = 1;
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
    this.#room = host.openRoom(settings.jitterBuffer, this.#output);
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
    if (this.#listeners.delete(listener)) this.#plan();
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
    if (this.#talkers.heard(speaker, packet.levelDbov, nowMs)) this.#talkersChanged();
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
    this.#mixes.clear();
  }

  /** Sends on what is in its turn, to those who hear this speaker alone, and to those who hear each apart. */
  #forward(speaker: Speaker, nowMs: number): void {
    const { stream, recent } = speaker;
    for (let next = stream.take(nowMs); next; next = stream.take(nowMs)) {
      const before = recent.at(-1);
      // Before the first packet there is nothing of which one could be missed.
      if (next === 'lost' && !before) continue;
      const payload = next === 'lost' ? emptyOpusPacket(before!) : next.payload;
      speaker.isLong ||= (opusPacketSamples(payload) ?? 0) > FRAME_SAMPLES;
      recent.push(payload);
      if (recent.length > RECENT_PACKETS) recent.shift();
      if (!speaker.isPlayed) {
        speaker.isHeard = speaker.forwardTo.length > 0;
        for (const listener of speaker.forwardTo) listener.deliver(payload);
        if (next === 'lost') this.#concealed(speaker, opusPacketSamples(payload) ?? 0);
      }
      if (this.#forwardListeners.length > 0) this.#forwardApart(speaker, payload);
    }
  }

  /** Hands a packet with its 4-byte head to all who want each speaker apart (docs/protocol.md, "Delivery"). */
  #forwardApart(speaker: Speaker, payload: Buffer): void {
    const frame = Buffer.allocUnsafe(4 + payload.length);
    frame[0] = FORWARD_VERSION;
    frame[1] = 0;
    frame.writeUInt16BE(speaker.number, 2);
    frame.set(payload, 4);
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
    const durationSamples = opusPacketSamples(payload);
    if (durationSamples === undefined) {
      counts.dropped.undecodable += 1;
      return;
    }
    this.#room.insert(speaker.id, { sequenceNumber, timestamp, payload, durationSamples }, nowMs);
  }

  #talkersChanged(): void {
    this.#plan();
    if (this.#talkers.isSilent) this.#clock.remove(this.#tick);
    else this.#clock.add(this.#tick);
    this.#onTalkersChanged();
  }

  /** Works out anew who hears what: after a change of the listeners, or of who is mixed. */
  #plan(): void {
    if (this.#isClosed) return;
    const mixed = [...this.#talkers.mixed];
    for (const speaker of this.#speakers.values()) {
      speaker.forwardTo = [];
      if (this.#talkers.isTalking(speaker)) continue;
      // Whoever talks again begins anew.
      speaker.stream.clear();
      speaker.recent = [];
      speaker.isHeard = false;
    }
    this.#mixes = new Map();
    this.#forwardListeners = [];
    for (const listener of this.#listeners) {
      if (listener.delivery === 'forward') this.#forwardListeners.push(listener);
      else this.#planListener(listener, mixed);
    }
    this.#planRoom(mixed);
  }

  #planListener(listener: Listener, mixed: Speaker[]): void {
    const gainOf = ({ peer }: Speaker) => (peer === listener.peer ? 0 : volumeOf(listener, peer));
    const heard = mixed.filter((speaker) => gainOf(speaker) > 0);
    if (heard.length === 0) return;
    const gains = heard
      .filter((speaker) => gainOf(speaker) !== 1)
      .map((speaker): [SpeakerId, number] => [speaker.id, gainOf(speaker)]);
    const [first] = heard;
    const canForward = !first!.isLong || (mixed.length === 1 && !first!.isPlayed);
    const isAsSent = heard.length === 1 && gains.length === 0;
    if (isAsSent && canForward && listener.format.codec === 'opus') {
      first!.forwardTo.push(listener);
      return;
    }
    const without = mixed.filter((speaker) => gainOf(speaker) === 0).map(({ id }) => id);
    const name = [without.join(), gains.map((gain) => gain.join('*')).join()].join(' ');
    let mix = this.#mixes.get(name);
    if (!mix) {
      mix = { planned: { name, without, gains, formats: [] }, listeners: new Map() };
      this.#mixes.set(name, mix);
    }
    const format = formatAudioFormat(listener.format);
    const listeners = mix.listeners.get(format);
    if (listeners) {
      listeners.push(listener);
    } else {
      mix.planned.formats.push(format);
      mix.listeners.set(format, [listener]);
    }
  }

  /** Tells the mixing half. Who is mixed for anybody is played until it falls silent, so that its packets go on evenly. */
  #planRoom(mixed: Speaker[]): void {
    const mixes = [...this.#mixes.values()].map(({ planned }) => planned);
    const added: Speaker[] = [];
    for (const speaker of mixed) {
      const isMixed = mixes.some(({ without }) => !without.includes(speaker.id));
      if (isMixed && !speaker.isPlayed) added.push(speaker);
    }
    const played = mixed.filter((speaker) => speaker.isPlayed || added.includes(speaker));
    for (const [id, speaker] of this.#played) {
      if (played.includes(speaker)) continue;
      this.#played.delete(id);
      speaker.isPlayed = false;
    }
    const plan: MixPlan = {
      speakers: played.map(({ id }) => id),
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
      for (const packet of speaker.stream.waiting) this.#play(speaker, packet, performance.now());
    }
  }

  readonly #output: MixOutput = {
    mixed: (name, format, frame) => {
      const listeners = this.#mixes.get(name)?.listeners.get(format);
      if (listeners) for (const listener of listeners) listener.deliver(frame);
    },
    concealed: (id, samples) => {
      const speaker = this.#played.get(id);
      if (speaker) this.#concealed(speaker, samples);
    },
    passed: (id, packet) => {
      const speaker = this.#played.get(id);
      if (speaker) for (const listener of speaker.forwardTo) listener.deliver(packet);
    },
  };

  readonly #tick = (nowMs: number): void => {
    for (const speaker of this.#speakers.values()) {
      if (this.#talkers.isTalking(speaker)) this.#forward(speaker, nowMs);
    }
    if (this.#played.size > 0) this.#room.tick(nowMs);
    // Last, so that what opens for the next plan is open by the next tick.
    if (this.#talkers.expire(nowMs)) this.#talkersChanged();
  };
}

/** What a listener hears of a peer; names are the clients', and may be those of what every object has. */
const volumeOf = ({ volume }: Listener, peer: string): number =>
  Object.hasOwn(volume, peer) ? volume[peer]! : 1;
