import type { Held, JitterBuffer } from '../../rtp/jitter-buffer.ts';
import { sequenceDelta } from '../../rtp/sequence.ts';
import { SAMPLES_PER_MS } from '../../rtp/clock-rate.ts';
import { FRAME_MS, FRAME_SAMPLES } from '../format.ts';
import type { OpusDecoder } from '../opus-codec.ts';
import { carriesCopy, emptyOpusPacket } from '../opus-packet.ts';
import { fadeIn, fadeOut } from '../ramps.ts';
import { compress, expand } from './time-stretch.ts';

/** Concealed samples after which concealment fades to silence, within a frame. */
const MAX_CONCEALED_SAMPLES = 2880;
/** The least sound in which a pitch period can be taken out or put in. */
const STRETCHABLE_SAMPLES = 960;
/** When the least that a packet waited is no more than this, the next one may come too late. */
const LEAST_SLACK_MS = 3;
/** The same for a sender with jitter: LATE_SHARE of its lateness beyond LATE_MS is added, up to MOST_LEAST_SLACK_MS. */
const LATE_MS = 12;
const LATE_SHARE = 1 / 4;
const MOST_LEAST_SLACK_MS = 10;
/**
 * Wait beyond that of the latest packets that serves nothing. More than a tick, because a packet is taken a whole tick sooner or later: some
 * senders would find no place in a narrower band.
 */
const SLACK_BAND_MS = 22;
/** Decoded sound that is left over after a tick delays all that follows: more than this is taken out. */
const MOST_REST_SAMPLES = 384;
/** A sender whose packets are later than this needs the rest: it is heard while they are awaited. */
const STEADY_MS = 8;
/** Excess delay that justifies a less perfect splice, ms. */
const URGENT_SLACK_MS = 60;
/** Length of the windows, in packets, whose least slack counts: the last one to two of them, and a shorter one at first. */
const SLACK_WINDOW_PACKETS = 50;
const FIRST_SLACK_PACKETS = 16;
/** Losses that are no more packets apart are taken for a habit of the network. */
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
  concealedSamples = 0;
  /** Packets that libopus refused. */
  undecodablePackets = 0;

  /**
   * @param onPacket is told of every packet in the order of play (an empty one for each that is lost), with the sample
   *   of the stream at which it starts
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

  /** How many samples were pulled. */
  get pulledSamples(): number {
    return this.#pulledSamples;
  }

  /**
   * Decodes packets that were heard elsewhere already, or by nobody, so that what follows joins on; returns their sound.
   * @param againSamples length of its end that is heard again before what follows
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

  /** Leaves out all but the last of {@link ready}. */
  shortenTo(samples: number): void {
    this.#ready = this.#ready.subarray(Math.max(0, this.#ready.length - samples));
  }

  /**
   * Fills `frame` with the next samples of this speaker; what it does not fill, it leaves alone.
   * @returns whether there was anything to fill it with
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
    this.#pass(next.payload);
    const samples = this.#tryDecode(next.payload);
    if (samples.length === 0) return this.#conceal(next.durationSamples);
    this.#copies.note(this.#last, next);
    this.#last = next;
    this.#concealedInARow = 0;
    this.#ready = this.#keepPace(this.#fromSilence(samples), nowMs - next.atMs, neededSamples);
    return true;
  }

  /** In place of one packet: what the next one knows of it, or else what libopus makes up. */
  #recover(): boolean {
    if (!this.#last) return this.#conceal(STRETCHABLE_SAMPLES);
    const { payload, durationSamples } = this.#last;
    this.#pass(emptyOpusPacket(payload));
    const next = this.#buffer.peek();
    if (!next) return this.#conceal(durationSamples);
    this.concealedSamples += durationSamples;
    try {
      this.#ready = this.#fromSilence(this.#decoder.recover(next, durationSamples));
      return true;
    } catch {
      // A packet that does not decode holds no copy either.
      return this.#conceal(durationSamples);
    }
  }

  /** In place of a packet that has not come: it is taken a tick later. */
  #awaitNext(neededSamples: number): boolean {
    if (!this.#conceal(neededSamples)) return false;
    this.#slack.shift(FRAME_MS);
    return true;
  }

  #conceal(wantedSamples: number): boolean {
    if (this.#hasFaded) {
      this.#last = undefined;
      return false;
    }
    this.#hasFaded = this.#concealedInARow + wantedSamples > MAX_CONCEALED_SAMPLES;
    const samples = this.#hasFaded ? Math.min(wantedSamples, FRAME_SAMPLES) : wantedSamples;
    this.#concealedInARow += samples;
    this.concealedSamples += samples;
    this.#ready = this.#decoder.conceal(Math.ceil(samples / 120) * 120);
    if (this.#hasFaded) fadeOut(this.#ready);
    return true;
  }

  /** Fades in samples that follow silence. */
  #fromSilence(samples: Float32Array): Float32Array {
    if (this.#hasFaded) fadeIn(samples);
    this.#hasFaded = false;
    return samples;
  }

  /** A packet that libopus refuses is as good as lost. */
  #tryDecode(packet: Buffer): Float32Array {
    try {
      return this.#decoder.decode(packet);
    } catch {
      this.undecodablePackets += 1;
      return new Float32Array(0);
    }
  }

  #pass(packet: Buffer): void {
    this.#onPacket(packet, this.#pulledSamples + this.#ready.length);
  }

  /**
   * Takes a pitch period out when packets wait in vain, or sound that is decoded does; puts one in when they come at the last
   * moment. A lost packet whose copy is in the packet after it comes as late as that one.
   * @param neededSamples samples of the packet that are heard in this tick
   */
  #keepPace(samples: Float32Array, waitedMs: number, neededSamples: number): Float32Array {
    this.#slack.add(waitedMs);
    const { least } = this.#slack;
    const everySamples = Math.min(samples.length, FRAME_SAMPLES);
    const restSamples = (FRAME_SAMPLES - neededSamples) % everySamples;
    const slackMs = least === undefined ? undefined : least - this.#copies.laterMs;
    const leastMs = this.#leastSlackMs;
    let stretched: Float32Array | undefined;
    if (samples.length < STRETCHABLE_SAMPLES) return samples;
    if (slackMs !== undefined && slackMs > leastMs + SLACK_BAND_MS) {
      stretched = compress(samples, slackMs > URGENT_SLACK_MS);
    } else if (slackMs !== undefined && slackMs < leastMs) {
      stretched = expand(samples);
    } else if (restSamples > MOST_REST_SAMPLES && this.#isSteady) {
      stretched = compress(samples, false, restSamples);
    }
    if (!stretched) return samples;
    const moreSamples = stretched.length - samples.length;
    // Packets are taken a tick later or sooner when that makes a whole one of what is left over.
    const shiftSamples = Math.floor((restSamples + moreSamples) / everySamples) * everySamples;
    this.#slack.shift(shiftSamples / SAMPLES_PER_MS);
    return stretched;
  }

  get #isSteady(): boolean {
    return this.#buffer.targetMs <= STEADY_MS;
  }

  get #leastSlackMs(): number {
    const overMs = Math.max(0, this.#buffer.targetMs - LATE_MS);
    return Math.min(MOST_LEAST_SLACK_MS, LEAST_SLACK_MS + overMs * LATE_SHARE);
  }
}

/** How much later than its packets a stream has to be played, so that the copy of one that is lost has come. */
class Copies {
  #sinceLossPackets = Infinity;
  #laterMs = 0;

  get laterMs(): number {
    return this.#laterMs;
  }

  /** Takes note of a packet that is played after another. */
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

/** The least of the last one to two windows of values. */
class LeastOfLate {
  readonly #windowValues: number;
  #before: number | undefined;
  #now = Infinity;
  #count = 0;

  constructor(windowValues: number) {
    this.#windowValues = windowValues;
  }

  /** Undefined until there are enough. */
  get least(): number | undefined {
    if (this.#before !== undefined) return Math.min(this.#before, this.#now);
    return this.#count < FIRST_SLACK_PACKETS ? undefined : this.#now;
  }

  add(value: number): void {
    this.#now = Math.min(this.#now, value);
    this.#count += 1;
    if (this.#count < this.#windowValues) return;
    this.#before = this.#now;
    this.#now = Infinity;
    this.#count = 0;
  }

  /** Adds to all measured delays, which would be greater by this now. */
  shift(by: number): void {
    this.#now += by;
    if (this.#before !== undefined) this.#before += by;
  }
}

function join(a: Float32Array, b: Float32Array): Float32Array {
  const joined = new Float32Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}
