import { JitterBuffer, type JitterBufferLimits } from '../rtp/jitter-buffer.ts';
import type { RtpPacket } from '../rtp/packet.ts';
import type { FrameClock } from './clock.ts';
import { type AudioFormat, type Delivery, FRAME_SAMPLES } from './format.ts';
import { Mix } from './mix.ts';
import type { Codecs } from './codecs.ts';
import type { OpusDecoder } from './opus-codec.ts';
import { opusPacketSamples } from './opus-packet.ts';
import { Playout } from './playout.ts';
import { type TalkerSettings, Talkers } from './talkers.ts';

export type MixerSettings = { talkers: TalkerSettings; jitterBuffer: JitterBufferLimits };

export type MixerEvents = {
  /** A codec could not be opened. */
  onFault: (fault: unknown) => void;
  /** Somebody has begun or ceased to talk. */
  onTalkersChanged: () => void;
};

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
};

type Speaker = {
  peer: string;
  /** Stands in the head of forwarded frames. */
  number: number;
  decoder: OpusDecoder;
  buffer: JitterBuffer;
  playout: Playout;
  /** The frame of this tick; undefined while there is none. */
  frame: Float32Array | undefined;
  /** Who gets this speaker's packets as they are: those who hear nobody else. */
  forwardTo: Listener[];
};

const FORWARD_VERSION = 1;
/** The name of the mix that leaves nobody out; no peer is called so. */
const EVERYBODY = '';

/**
 * What the WebSocket peers of one room hear. A packet of the room's RTP comes in at {@link receive}; what is heard goes
 * out through `Listener.deliver`, at once where a listener hears one speaker only, else at the next tick of the clock.
 *
 * Decodes once a speaker, sums once, and encodes once a distinct mix: who is silent shares one mix with all who are.
 * Who is heard by whom is worked out when it changes, not per packet.
 */
export class Mixer {
  readonly #codecs: Codecs;
  readonly #clock: FrameClock;
  readonly #settings: MixerSettings;
  readonly #events: MixerEvents;
  readonly #speakers = new Map<string, Speaker>();
  readonly #listeners = new Set<Listener>();
  readonly #talkers: Talkers<Speaker>;
  /** By the peer who is left out of it. */
  #mixes = new Map<string, Mix>();
  #forwardListeners: Listener[] = [];
  #closed = false;

  constructor(codecs: Codecs, clock: FrameClock, settings: MixerSettings, events: MixerEvents) {
    this.#codecs = codecs;
    this.#events = events;
    this.#clock = clock;
    this.#settings = settings;
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

  /** Makes `peer` heard; its packets come in at {@link receive}. The decoder is closed with the speaker. */
  addSpeaker(peer: string, number: number, decoder: OpusDecoder): void {
    this.removeSpeaker(peer);
    const buffer = new JitterBuffer(this.#settings.jitterBuffer);
    const playout = new Playout(buffer, decoder);
    const speaker = { peer, number, decoder, buffer, playout, frame: undefined, forwardTo: [] };
    this.#speakers.set(peer, speaker);
  }

  removeSpeaker(peer: string): void {
    const speaker = this.#speakers.get(peer);
    if (!speaker) return;
    this.#speakers.delete(peer);
    if (this.#talkers.delete(speaker)) this.#talkersChanged();
    speaker.decoder.close();
  }

  /** Takes one RTP packet of a speaker. The hot path: runs for every packet in the room. */
  receive(peer: string, packet: RtpPacket, nowMs: number): void {
    const speaker = this.#speakers.get(peer);
    if (!speaker) return;
    if (this.#talkers.heard(speaker, packet.levelDbov, nowMs)) this.#talkersChanged();
    if (!this.#talkers.isTalking(speaker)) return;
    for (const listener of speaker.forwardTo) listener.deliver(packet.payload);
    if (this.#forwardListeners.length > 0) this.#forward(speaker, packet.payload);
    if (this.#mixes.size === 0 || !this.#talkers.mixed.has(speaker)) return;
    const durationSamples = opusPacketSamples(packet.payload);
    if (durationSamples) speaker.buffer.insert(packet, durationSamples, nowMs);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#clock.remove(this.#tick);
    this.#listeners.clear();
    for (const mix of this.#mixes.values()) mix.close();
    this.#mixes.clear();
    for (const { decoder } of this.#speakers.values()) decoder.close();
    this.#speakers.clear();
  }

  /** Hands a packet with its 4-byte head to all who want each speaker apart (docs/protocol.md, "Delivery"). */
  #forward(speaker: Speaker, payload: Buffer): void {
    const frame = Buffer.allocUnsafe(4 + payload.length);
    frame[0] = FORWARD_VERSION;
    frame[1] = 0;
    frame.writeUInt16BE(speaker.number, 2);
    frame.set(payload, 4);
    for (const listener of this.#forwardListeners) {
      if (listener.peer !== speaker.peer) listener.deliver(frame);
    }
  }

  #talkersChanged(): void {
    this.#plan();
    if (this.#talkers.isSilent) this.#clock.remove(this.#tick);
    else this.#clock.add(this.#tick);
    this.#events.onTalkersChanged();
  }

  /** Works out anew who hears what: after a change of the listeners, or of who is mixed. */
  #plan(): void {
    const mixed = [...this.#talkers.mixed];
    const before = this.#mixes;
    for (const mix of before.values()) mix.removeListeners();
    for (const speaker of this.#speakers.values()) speaker.forwardTo = [];
    this.#mixes = new Map();
    this.#forwardListeners = [];
    for (const listener of this.#listeners) {
      if (listener.delivery === 'forward') this.#forwardListeners.push(listener);
      else this.#planListener(listener, mixed, before);
    }
    for (const [name, mix] of before) if (!this.#mixes.has(name)) mix.close();
    for (const speaker of this.#speakers.values()) {
      if (this.#mixes.size === 0 || !mixed.includes(speaker)) speaker.playout.clear();
    }
  }

  #planListener(listener: Listener, mixed: Speaker[], before: Map<string, Mix>): void {
    const own = mixed.find(({ peer }) => peer === listener.peer);
    const heardSpeakers = mixed.length - (own ? 1 : 0);
    if (heardSpeakers === 0) return;
    if (heardSpeakers === 1 && listener.format.codec === 'opus') {
      mixed.find((speaker) => speaker !== own)?.forwardTo.push(listener);
      return;
    }
    const name = own?.peer ?? EVERYBODY;
    const mix =
      this.#mixes.get(name) ?? before.get(name) ?? new Mix(this.#codecs, this.#events.onFault);
    this.#mixes.set(name, mix);
    mix.add(listener);
  }

  readonly #tick = (nowMs: number): void => {
    if (this.#talkers.expire(nowMs)) this.#talkersChanged();
    if (this.#mixes.size === 0) return;
    const sum = new Float32Array(FRAME_SAMPLES);
    let contributors = 0;
    for (const speaker of this.#talkers.mixed) {
      const frame = new Float32Array(FRAME_SAMPLES);
      const isAudible = speaker.playout.pull(frame, nowMs);
      speaker.frame = isAudible ? frame : undefined;
      if (!isAudible) continue;
      contributors += 1;
      for (let i = 0; i < FRAME_SAMPLES; i += 1) sum[i]! += frame[i]!;
    }
    for (const [name, mix] of this.#mixes) {
      const own = this.#speakers.get(name)?.frame;
      if (contributors > (own ? 1 : 0)) mix.deliver(sum, own);
    }
  };
}
