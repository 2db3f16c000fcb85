import type { Held, JitterBuffer } from '../../rtp/jitter-buffer.ts';
import { sequenceDelta } from '../../rtp/sequence.ts';
import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import { FRAME_MS, FRAME_SAMPLES } from '../format.ts';
import type { OpusDecoder } from '../opus-codec.ts';
import { carriesCopy, emptyOpusPacket } from '../opus-packet.ts';
import { fadeIn, fadeOut } from '../ramps.ts';
import { AwaitedSamples } from './awaited-samples.ts';
import { LeastOfLate } from './least-of-late.ts';
import { clipped } from './limiter.ts';
import { compress, expand } from './time-stretch.ts';

/** Concealed samples after which concealment fades to silence, within a frame. */
const MAX_CONCEALED_SAMPLES = 2880;
/** Minimum length of audio, samples, in which a pitch period can be removed or inserted. */
const STRETCHABLE_SAMPLES = 960;
/** Minimum slack of packets, ms: when the least slack is below it, the next packet may come too late. */
const LEAST_SLACK_MS = 3;
/** Increase of that minimum for a sender with jitter: LATE_SHARE of its lateness beyond LATE_MS, up to MOST_LEAST_SLACK_MS. */
const LATE_MS = 12;
const LATE_SHARE = 1 / 4;
const MOST_LEAST_SLACK_MS = 10;
/**
 * Slack beyond the minimum that is still accepted, ms; more is unnecessary delay. It exceeds a tick, because packets are taken a whole tick
 * sooner or later: in a narrower band the slack of some senders would never settle. In a wider one it would stay a tick too large.
 */
const SLACK_BAND_MS = 21;
/** Maximum decoded audio left over after a tick, samples, which delays everything after it; more than this is removed. */
const MOST_REST_SAMPLES = 384;
/** Lateness up to which a sender counts as steady, ms. Others need the leftover audio: it is played while their packets are awaited. */
const STEADY_MS = 8;
/** Excess delay that justifies a less perfect splice, ms. */
const URGENT_SLACK_MS = 60;
/** Length of the windows, packets of 20 ms, over which the least slack is taken: the last one to two windows. */
const SLACK_WINDOW_PACKETS = 50;
/** Maximum distance between two losses, packets, that counts as recurring loss of the network. */
const LOSSES_APART_PACKETS = 500;

/**
 * One speaker's packets as a steady stream of samples: taken from the jitter buffer, decoded once, gaps recovered or
 * concealed, and stretched or shortened where the speaker's clock or network would make the buffer run full or dry.
 */
export class Playout {
  readonly #buffer: JitterBuffer;
  readonly #decoder: OpusDecoder;
  readonly #onPacket: (packet: Buffer, startsAtSamples: number) => void;
  #ready: Float32Array = new Float32Array(0);
  #pulledSamples = 0;
  #last: Held | undefined;
  #concealedInARow = 0;
  #hasFaded = false;
  readonly #slack = new LeastOfLate(SLACK_WINDOW_PACKETS);
  readonly #copies = new Copies();
  readonly #awaited = new AwaitedSamples();
  /** Samples that were concealed in place of lost or late packets. */
  concealedSamples = 0;
  /** Packets that libopus refused. */
  undecodablePackets = 0;

  /**
   * @param onPacket called with every packet in playback order (an empty one for each lost packet), and the sample
   *   of the stream at which the packet starts
   */
  constructor(
    buffer: JitterBuffer,
    decoder: OpusDecoder,
    onPacket: (packet: Buffer, startsAtSamples: number) => void,
  ) {
    this.#buffer = buffer;
    this.#decoder = decoder;
    this.#onPacket = onPacket;
  }

  /** Number of samples that were pulled. */
  get pulledSamples(): number {
    return this.#pulledSamples;
  }

  /**
   * Decodes packets that were played elsewhere, or not at all, so that the next packet continues from them; returns their audio.
   * @param againSamples length of the end of that audio, samples, that is played again before the next packet
   */
  warmUp(packets: Buffer[], againSamples: number): Float32Array {
    let heard: Float32Array = new Float32Array(0);
    for (const packet of packets) heard = join(heard, this.#tryDecode(packet));
    if (againSamples > 0) this.#ready = heard.slice(-againSamples);
    return heard;
  }

  /** Samples that are decoded and have not been pulled. */
  get ready(): Float32Array {
    return this.#ready;
  }

  /** Keeps only the last `samples` samples of {@link ready}. */
  shortenTo(samples: number): void {
    this.#ready = this.#ready.subarray(Math.max(0, this.#ready.length - samples));
  }

  /** Accounts for a change of the phase of ticks, ms, with which the slack of packets changes; negative if ticks come earlier. */
  moveTicks(movedMs: number): void {
    this.#slack.shift(movedMs);
  }

  /**
   * Fills `frame` with the next samples of this speaker; the part that is not filled stays unchanged.
   * @returns true if there were samples
   */
  pull(frame: Float32Array, nowMs: number): boolean {
    let filled = 0;
    while (filled < frame.length) {
      if (this.#ready.length === 0 && !this.#playNext(frame.length - filled, nowMs)) break;
      const part = this.#ready.subarray(0, frame.length - filled);
      frame.set(part, filled);
      this.#ready = this.#ready.subarray(part.length);
      filled += part.length;
      this.#pulledSamples += part.length;
    }
    return filled > 0;
  }

  close(): void {
    this.#decoder.close();
  }

  #playNext(neededSamples: number, nowMs: number): boolean {
    const next = this.#buffer.take(nowMs, this.#copies.laterMs > 0);
    if (next === 'empty') return this.#last !== undefined && this.#awaitNext(neededSamples);
    if (next === 'lost') return this.#recover();
    const samples = this.#decode(next, nowMs);
    if (samples.length === 0) return this.#conceal(next.durationSamples);
    this.#concealedInARow = 0;
    this.#ready = this.#fromSilence(samples);
    this.#keepPace(neededSamples, nowMs);
    return true;
  }

  /** Decodes a packet that has been taken from the jitter buffer; returns no samples if libopus refuses it. */
  #decode(packet: Held, nowMs: number): Float32Array {
    this.#pass(packet.payload);
    const samples = this.#tryDecode(packet.payload);
    if (samples.length === 0) return samples;
    this.#copies.note(this.#last, packet);
    this.concealedSamples += this.#awaited.settle(this.#last, packet);
    this.#last = packet;
    const weight = packet.durationSamples / FRAME_SAMPLES;
    if (!packet.isOfBurst) this.#slack.add(nowMs - packet.atMs, weight);
    return samples;
  }

  /** Replaces a lost packet by the copy in the next one, or else by concealment of libopus. */
  #recover(): boolean {
    const next = this.#buffer.peek();
    // After silence only a copy is played.
    const isSilent = this.#hasFaded && !(next && carriesCopy(next));
    if (!this.#last || isSilent) return this.#conceal(STRETCHABLE_SAMPLES);
    const { payload, durationSamples } = this.#last;
    this.#pass(emptyOpusPacket(payload));
    if (!next) return this.#conceal(durationSamples);
    this.concealedSamples += durationSamples;
    try {
      this.#ready = this.#fromSilence(clipped(this.#decoder.recover(next, durationSamples)));
      return true;
    } catch {
      // A packet that does not decode holds no copy either.
      return this.#conceal(durationSamples);
    }
  }

  /** Conceals a packet that has not arrived; the packet is taken a tick later. */
  #awaitNext(neededSamples: number): boolean {
    const countedSamples = this.concealedSamples;
    if (!this.#conceal(neededSamples)) return false;
    this.#awaited.add(this.concealedSamples - countedSamples);
    this.concealedSamples = countedSamples;
    this.#slack.shift(FRAME_MS);
    return true;
  }

  #conceal(wantedSamples: number): boolean {
    if (this.#hasFaded) return false;
    this.#hasFaded = this.#concealedInARow + wantedSamples > MAX_CONCEALED_SAMPLES;
    const samples = this.#hasFaded ? Math.min(wantedSamples, FRAME_SAMPLES) : wantedSamples;
    this.#concealedInARow += samples;
    this.concealedSamples += samples;
    this.#ready = clipped(this.#decoder.conceal(Math.ceil(samples / 120) * 120));
    if (this.#hasFaded) fadeOut(this.#ready);
    return true;
  }

  /** Fades in samples that follow silence. */
  #fromSilence(samples: Float32Array): Float32Array {
    if (this.#hasFaded) fadeIn(samples);
    this.#hasFaded = false;
    return samples;
  }

  /** Decodes a packet; returns no samples if libopus refuses it, which counts as a loss. */
  #tryDecode(packet: Buffer): Float32Array {
    try {
      return clipped(this.#decoder.decode(packet));
    } catch {
      this.undecodablePackets += 1;
      return new Float32Array(0);
    }
  }

  #pass(packet: Buffer): void {
    this.#onPacket(packet, this.#pulledSamples + this.#ready.length);
  }

  /** Decodes further packets of this tick behind a short one, until there is enough audio to stretch. */
  #decodeMore(neededSamples: number, nowMs: number): void {
    const mostSamples = Math.min(neededSamples, STRETCHABLE_SAMPLES);
    while (this.#ready.length < mostSamples && this.#buffer.peek()) {
      const next = this.#buffer.take(nowMs);
      if (typeof next === 'string') return;
      this.#ready = join(this.#ready, this.#decode(next, nowMs));
    }
  }

  /**
   * Removes a pitch period when packets or decoded audio wait longer than necessary; inserts one when packets arrive at the last
   * moment. A lost packet whose copy is in the next packet counts as arriving with that packet.
   * @param neededSamples number of samples that are played in this tick, from the packet in {@link ready} on
   */
  #keepPace(neededSamples: number, nowMs: number): void {
    const { least } = this.#slack;
    const everySamples = Math.min(this.#ready.length, FRAME_SAMPLES);
    const restSamples = (FRAME_SAMPLES - neededSamples) % everySamples;
    const slackMs = least === undefined ? undefined : least - this.#copies.laterMs;
    const leastMs = this.#leastSlackMs;
    const hasRest = restSamples > MOST_REST_SAMPLES && this.#isSteady;
    const isEarly = slackMs !== undefined && slackMs > leastMs + SLACK_BAND_MS;
    const isLate = slackMs !== undefined && slackMs < leastMs;
    if (!isEarly && !isLate && !hasRest) return;
    this.#decodeMore(neededSamples, nowMs);
    const samples = this.#ready;
    if (samples.length < STRETCHABLE_SAMPLES) return;
    let stretched: Float32Array | undefined;
    if (isEarly) stretched = compress(samples, slackMs > URGENT_SLACK_MS);
    else if (isLate) stretched = expand(samples);
    else stretched = compress(samples, false, restSamples);
    if (!stretched) return;
    const moreSamples = stretched.length - samples.length;
    // Packets are taken a tick later or sooner once the leftover samples amount to a whole packet
    // or frame.
    const shiftSamples = Math.floor((restSamples + moreSamples) / everySamples) * everySamples;
    this.#slack.shift(shiftSamples / SAMPLES_PER_MS);
    this.#ready = stretched;
  }

  get #isSteady(): boolean {
    return this.#buffer.targetMs <= STEADY_MS;
  }

  get #leastSlackMs(): number {
    const overMs = Math.max(0, this.#buffer.targetMs - LATE_MS);
    return Math.min(MOST_LEAST_SLACK_MS, LEAST_SLACK_MS + overMs * LATE_SHARE);
  }
}

/** Additional delay of playback, ms, with which the copy of a lost packet arrives in time. */
class Copies {
  #sinceLossPackets = Infinity;
  #laterMs = 0;

  get laterMs(): number {
    return this.#laterMs;
  }

  /** Records a packet that is played after `before`. */
  note(before: Held | undefined, packet: Held): void {
    this.#sinceLossPackets += 1;
    const isRare = this.#sinceLossPackets > LOSSES_APART_PACKETS;
    if (isRare) this.#laterMs = 0;
    if (!before || sequenceDelta(before.sequenceNumber, packet.sequenceNumber) !== 2) return;
    if (!carriesCopy(packet.payload)) return;
    this.#sinceLossPackets = 0;
    if (!isRare) this.#laterMs = packet.durationSamples / SAMPLES_PER_MS;
  }
}

function join(a: Float32Array, b: Float32Array): Float32Array {
  const joined = new Float32Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}
