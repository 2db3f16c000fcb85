import { FrameClock, type OnTick } from '../../src/audio/clock.ts';
import type { Codecs } from '../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../src/audio/format.ts';
import {
  inlineBackend,
  MixEnginePool,
  type MixEnginePoolEvents,
} from '../../src/audio/mixing/mix-engine-pool.ts';
import type { CodecSettings } from '../../src/audio/opus-codec.ts';
import { MigratingMixEngine } from '../../src/audio/mixing/migrating-mix-engine.ts';
import type { MixBackend, MixEngine } from '../../src/audio/mixing/mix-engine.ts';
import type { Listener } from '../../src/audio/mixing/subscriptions.ts';
import { RoomMixer } from '../../src/audio/mixing/room-mixer.ts';
import { opusPacketSamples } from '../../src/audio/opus-packet.ts';
import { downmix, openSampleReader } from '../../src/audio/samples.ts';
import { SAMPLES_PER_MS } from '../../src/rtp/clock-rate.ts';
import type { MediaPacket } from '../../src/rtp/packet.ts';
import type { HeardPiece } from './heard-words.ts';

/** A mixer on a clock of its own: what happens in half an hour takes seconds, and the same every time. */

const TICK_MS = 20;
/** Ticks fall between the packets of who sends every 20 ms. */
const FIRST_TICK_MS = 10;
/** Before the packet of each frame that is forwarded apart (docs/protocol.md, "Delivery"). */
const FORWARD_HEAD_BYTES = 4;
/** A frame that comes later than this after the end of the one before it does not go on from it. */
const RESERVE_SAMPLES = 60 * SAMPLES_PER_MS;

/** A packet of a speaker, and when it comes. */
export type Arrival = { peer: string; packet: MediaPacket; atMs: number; isMuted?: boolean };

/** Frames that a listener was given. */
export type Heard = {
  frames: Buffer[];
  /** When each frame came. */
  framesAtMs: number[];
  concealedMs: number;
  listener: Listener;
};

/** Frames, when each came, and in which format. */
export type HeardFrames = Pick<Heard, 'frames' | 'framesAtMs'> & {
  listener: Pick<Listener, 'format' | 'delivery'>;
};

/** The clock that a mixer is driven by, turned by hand. */
export class HandClock extends FrameClock {
  readonly #ticks = new Set<OnTick>();
  readonly #sharing = new Set<OnTick>();

  /** Moment at which a tick is wanted, modulo 20 ms. */
  dueMs: number | undefined;
  /** True if the tick before that moment falls out. */
  isLater = false;

  constructor() {
    super((fault) => {
      throw fault;
    });
  }

  override add(onTick: OnTick, dueMs?: number): void {
    if (this.#ticks.size === 0 || this.#sharing.delete(onTick)) this.dueMs = dueMs;
    this.#ticks.add(onTick);
  }

  override share(onTick: OnTick): void {
    this.#ticks.add(onTick);
    this.#sharing.add(onTick);
  }

  override isApart(onTick: OnTick): boolean {
    return this.#ticks.has(onTick) && !this.#sharing.has(onTick);
  }

  override move(_onTick: OnTick, dueMs: number): void {
    this.dueMs = dueMs;
  }

  override postpone(_onTick: OnTick, dueMs: number): void {
    this.dueMs = dueMs;
    this.isLater = true;
  }

  override remove(onTick: OnTick): void {
    this.#ticks.delete(onTick);
    this.#sharing.delete(onTick);
  }

  get isRunning(): boolean {
    return this.#ticks.size > 0;
  }

  tick(nowMs: number): void {
    for (const onTick of this.#ticks) onTick(nowMs, nowMs);
  }
}

/** Host whose mixes come out late, as from another thread, and whose room moves to another backend when it is told to. */
class LateHost extends MixEnginePool {
  readonly #openBackend: () => MixBackend;
  #room: MigratingMixEngine | undefined;
  /** In the order in which they were made. */
  readonly #late: { dueMs: number; call: (atMs: number) => void }[] = [];
  /** When what is made now comes out. */
  dueMs = 0;

  constructor(codecs: Codecs, settings: CodecSettings, events: MixEnginePoolEvents) {
    super(0, codecs, settings, events);
    this.#openBackend = () => inlineBackend(codecs, events.onFault);
  }

  move(): void {
    this.#room?.move();
  }

  override openRoom(
    ...[limits, output, onTicked]: Parameters<MixEnginePool['openRoom']>
  ): MixEngine {
    const later = (call: (atMs: number) => void) =>
      void this.#late.push({ dueMs: this.dueMs, call });
    const backends = [this.#openBackend(), this.#openBackend()] as const;
    this.#room = new MigratingMixEngine(
      limits,
      {
        mixed: (name, format, frame) => later((atMs) => output.mixed(name, format, frame, atMs)),
        passed: (id, packet, rest) => later((atMs) => output.passed(id, packet, rest, atMs)),
        concealed: (...args) => later(() => output.concealed(...args)),
        paused: (...args) => later(() => output.paused(...args)),
      },
      () => later(() => onTicked()),
      {
        first: backends[0],
        choose: () => backends.find((backend) => backend !== this.#room?.backend) ?? backends[0],
        isCrowded: () => false,
        onClose: () => {},
      },
    );
    return this.#room;
  }

  /** Lets out what has been mixed, and is due. @param onTime called with the time of each */
  release(nowMs: number, onTime: (atMs: number) => void): void {
    while (this.#late[0] && this.#late[0].dueMs <= nowMs) {
      const { dueMs, call } = this.#late.shift()!;
      onTime(dueMs);
      call(dueMs);
    }
  }
}

/** Opens a room of these speakers. */
export type OpenRoom = (speakers: string[]) => SimulatedRoom;

/** One room, of speakers that send RTP and of those that hear it over a WebSocket. */
export class SimulatedRoom {
  readonly mixer: RoomMixer;
  readonly faults: unknown[] = [];
  readonly #clock = new HandClock();
  readonly #host: LateHost;
  readonly #lateMs: number;
  readonly #hasOwnTicks: boolean;
  #nowMs = 0;
  #nextTickMs = FIRST_TICK_MS;

  /**
   * @param lateMs how long after a tick what it has made comes out
   * @param hasOwnTicks ticks come when the room wants them
   */
  constructor(codecs: Codecs, speakers: string[], lateMs = 0, hasOwnTicks = false) {
    this.#lateMs = lateMs;
    this.#hasOwnTicks = hasOwnTicks;
    this.#host = new LateHost(
      codecs,
      { bitrateBps: 48_000, complexity: 5 },
      {
        onFault: (fault) => this.faults.push(fault),
        onThreadLost: (reason) => this.faults.push(reason),
      },
    );
    const settings = {
      activeSpeakers: { thresholdLevel: 65, holdMs: 500, maxMixed: 8 },
      jitterBuffer: { minMs: 5, maxMs: 200 },
    };
    this.mixer = new RoomMixer(this.#host, this.#clock, settings, () => {});
    for (const [i, name] of speakers.entries()) this.mixer.addSpeaker(name, i + 1);
  }

  listen(peer: string, format: AudioFormat, delivery: Delivery = 'mix'): Heard {
    const heard = this.prepare(peer, format, delivery);
    this.mixer.addListener(heard.listener);
    return heard;
  }

  /** A listener that is not in the room yet. */
  prepare(peer: string, format: AudioFormat, delivery: Delivery = 'mix'): Heard {
    const heard: Heard = {
      frames: [],
      framesAtMs: [],
      concealedMs: 0,
      listener: {
        peer,
        format,
        delivery,
        volume: {},
        deliver: (frame) => {
          heard.frames.push(frame);
          heard.framesAtMs.push(this.#nowMs);
        },
        concealed: (samples) => {
          heard.concealedMs += samples / 48;
        },
      },
    };
    return heard;
  }

  /** From now on `heard` hears each peer times a number, 1 if it is not named. */
  setVolume(heard: Heard, volume: Record<string, number>): void {
    const before = heard.listener;
    heard.listener = { ...before, volume };
    this.mixer.updateListener(before, heard.listener);
  }

  /** Moves the mix to another backend, as from a thread to another. */
  moveMix(): void {
    this.#host.move();
  }

  get isRunning(): boolean {
    return this.#clock.isRunning;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Lets time go by in which nothing comes. */
  async pause(ms: number): Promise<void> {
    await this.passTo(this.#nowMs + ms);
  }

  /** Lets the time come. */
  async passTo(atMs: number): Promise<void> {
    await this.#tickUntil(atMs);
    this.#release(atMs);
    this.#nowMs = atMs;
  }

  /** Lets packets come, each at its time, while the clock ticks; ends with the last of them. */
  async play(...streams: Arrival[][]): Promise<void> {
    const arrivals = streams.flat().toSorted((one, other) => one.atMs - other.atMs);
    for (const { peer, packet, atMs, isMuted } of arrivals) {
      await this.passTo(atMs);
      this.mixer.receive(peer, packet, atMs, isMuted);
    }
  }

  /** Lets the next tick come when it is wanted: no later than 20 ms after the last one, or than 40 ms if it is postponed. */
  #moveTick(): void {
    const { dueMs } = this.#clock;
    if (!this.#hasOwnTicks || dueMs === undefined) return;
    this.#nextTickMs -= (((this.#nextTickMs - dueMs) % TICK_MS) + TICK_MS) % TICK_MS;
    if (this.#nextTickMs <= this.#nowMs) this.#nextTickMs += TICK_MS;
    if (this.#clock.isLater) this.#nextTickMs += TICK_MS;
    this.#clock.dueMs = undefined;
    this.#clock.isLater = false;
  }

  #release(nowMs: number): void {
    this.#host.release(nowMs, (atMs) => (this.#nowMs = Math.max(this.#nowMs, atMs)));
  }

  async #tickUntil(atMs: number): Promise<void> {
    for (
      this.#moveTick();
      this.#nextTickMs <= atMs;
      this.#nextTickMs += TICK_MS, this.#moveTick()
    ) {
      this.#release(this.#nextTickMs);
      // Parts that open asynchronously are open by the next tick.
      await new Promise(setImmediate);
      this.#nowMs = this.#nextTickMs;
      this.#host.dueMs = this.#nextTickMs + this.#lateMs;
      this.#clock.tick(this.#nextTickMs);
      this.#release(this.#nextTickMs);
    }
  }
}

/** The RTP of one speaker whose Opus packets come at their pace from `fromMs` on. */
export function streamOf(
  peer: string,
  payloads: Buffer[],
  { fromMs = 0, audioLevel = 20 } = {},
): Arrival[] {
  let timestamp = fromMs * 48;
  return payloads.map((payload, sequenceNumber) => {
    const packet = { sequenceNumber, timestamp, marker: false, audioLevel, payload };
    const atMs = timestamp / 48;
    timestamp += opusPacketSamples(payload) ?? 0;
    return { peer, packet, atMs };
  });
}

/**
 * Returns the sound that a listener was given: pieces that follow each other without a gap, by when they came.
 * @param fromFrame those before are decoded, and left out
 * @param reserveSamples sound that the listener's player holds: a frame that comes later than that does not go on from the one before
 */
export async function soundOf(
  codecs: Codecs,
  heard: HeardFrames,
  fromFrame = 0,
  reserveSamples = RESERVE_SAMPLES,
): Promise<HeardPiece[]> {
  const { format, delivery } = heard.listener;
  const decoder = await codecs.opus.createDecoder();
  const readSamples = format.codec === 'opus' ? undefined : openSampleReader(format.codec);
  const parts = heard.frames.map((frame, i) => {
    const payload = delivery === 'forward' ? frame.subarray(FORWARD_HEAD_BYTES) : frame;
    const sound =
      format.codec === 'opus'
        ? decoder.decode(payload).slice()
        : downmix(readSamples!(payload), format.channels);
    return { sound, atSample: Math.round(heard.framesAtMs[i]! * SAMPLES_PER_MS) };
  });
  decoder.close();
  const pieces: HeardPiece[] = [];
  let run: Float32Array[] = [];
  let [from, end] = [0, 0];
  const finish = () => {
    if (run.length > 0) pieces.push({ fromSample: from, sound: joinAll(run) });
    run = [];
  };
  for (const { sound, atSample } of parts.slice(fromFrame)) {
    // A player has something in reserve by then.
    if (run.length === 0 || atSample > end + reserveSamples) {
      finish();
      from = Math.max(atSample, end);
      end = from;
    }
    run.push(sound);
    end += sound.length;
  }
  finish();
  return pieces;
}

export function joinAll(parts: Float32Array[]): Float32Array {
  const joined = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
