import { SAMPLES_PER_MS } from './clock-rate.ts';
import { type MediaPacket, SILENCE_LEVEL } from './packet.ts';
import { Packetizer } from './packetizer.ts';

/** 20 ms of digital silence in Opus: CELT, full band, mono (RFC 6716 §3.1). */
const SILENT_PACKET = Buffer.from([0xf8, 0xff, 0xfe]);
const SILENT_MS = 20;
/** Maximum lateness of a packet, ms, that a network may cause, and which does not end a stretch of audio. */
const MAX_LATE_MS = 100;
/**
 * Longest time between two packets of a stream whose client asked for discontinuous transmission, ms: less
 * than 400 by two ticks.
 */
const SPARSE_EVERY_MS = 360;
/**
 * Time between two silent packets of a stream that is ahead of time, ms, because its client's clock is fast or a burst
 * followed a stall: 40 less half a tick. Silence at half its pace takes the lead back without a hole.
 */
const SLOWED_EVERY_MS = 30;
/** Level of audio packets, −dBov. Clients do not receive it. */
const LEVEL = 30;

export type LevelledPacket = MediaPacket & { audioLevel: number };

/**
 * Makes a continuous RTP stream of intermittent packets: silence is sent in between, and timestamps
 * advance with time. Pure: the caller passes the time.
 */
export class ContinuousStream {
  readonly #send: (packet: LevelledPacket) => void;
  readonly #isSparse: boolean;
  readonly #packetizer = new Packetizer();
  /** End of the packets sent so far, by their sending time. */
  #endsAtMs: number;
  /** End of the last packet, as if it had come in time. */
  #heardUntilMs: number;
  #sentAtMs: number;
  #isSilent = true;

  /** @param isSparse true if silence may have gaps (`usedtx` of RFC 7587 §6.1) */
  constructor(send: (packet: LevelledPacket) => void, isSparse: boolean, nowMs: number) {
    this.#send = send;
    this.#isSparse = isSparse;
    this.#endsAtMs = nowMs;
    this.#heardUntilMs = nowMs;
    this.#sentAtMs = nowMs;
  }

  /** Sends a packet of audio. */
  push(payload: Buffer, durationSamples: number, nowMs: number): void {
    const isLate = nowMs - this.#heardUntilMs > MAX_LATE_MS;
    this.#write(payload, durationSamples, LEVEL, this.#isSilent || isLate, nowMs);
    this.#isSilent = false;
    this.#heardUntilMs = nowMs + durationSamples / SAMPLES_PER_MS;
  }

  /** Sends silence if there is no audio; to be called every 20 ms. */
  tick(nowMs: number): void {
    if (nowMs - this.#heardUntilMs <= MAX_LATE_MS) return;
    this.#isSilent = true;
    const isAhead = this.#endsAtMs > nowMs;
    const everyMs = this.#isSparse ? SPARSE_EVERY_MS : isAhead ? SLOWED_EVERY_MS : 0;
    if (nowMs - this.#sentAtMs < everyMs) return;
    this.#write(SILENT_PACKET, SILENT_MS * SAMPLES_PER_MS, SILENCE_LEVEL, true, nowMs);
  }

  /** @param catchesUp true if the time since the last packet is skipped, in steps of 20 ms */
  #write(
    payload: Buffer,
    durationSamples: number,
    level: number,
    catchesUp: boolean,
    nowMs: number,
  ): void {
    const behindMs = catchesUp ? Math.max(0, nowMs - this.#endsAtMs) : 0;
    const gapMs = Math.floor(behindMs / SILENT_MS) * SILENT_MS;
    this.#endsAtMs += gapMs + durationSamples / SAMPLES_PER_MS;
    this.#sentAtMs = nowMs;
    this.#send(this.#packetizer.packetize(payload, durationSamples, level, gapMs * SAMPLES_PER_MS));
  }
}
