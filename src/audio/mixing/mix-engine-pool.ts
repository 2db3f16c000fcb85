import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import { noteShortage } from '../../resources.ts';
import type { Codecs } from '../codecs.ts';
import type { CodecSettings } from '../opus-codec.ts';
import { FRAME_MS } from '../format.ts';
import { LevelMeter } from '../level-meter.ts';
import { LateBeginning } from './late-beginning.ts';
import type { MixBackend, MixEngine, TickReport } from './mix-engine.ts';
import type { MixOutput } from './mix-plan.ts';
import { MixThread } from './mix-thread.ts';
import { MigratingMixEngine } from './migrating-mix-engine.ts';
import { LocalMixEngine } from './local-mix-engine.ts';

/**
 * Mixing time per 20 ms up to which rooms are mixed in the event loop, ms: it does not delay others, and a thread
 * would only cost more.
 */
const INLINE_BUDGET_MS = 6;
/** Mixing time a tick above which a room moves from this thread to another. */
const INLINE_MAX_MS = 1.5 * INLINE_BUDGET_MS;
/** Mixing time a tick above which a thread takes no further room. */
const THREAD_BUDGET_MS = 0.8 * FRAME_MS;
/** Mixing time a tick above which a thread falls behind, and rooms move to others if those have room. */
const THREAD_MAX_MS = FRAME_MS;
/**
 * Time after a thread was lost or failed to start, ms, in which none is started. The lost one is replaced at once, unless another was
 * lost within this time.
 */
const RESPAWN_EVERY_MS = 1000;

export type MixEnginePoolEvents = {
  /** Called when a codec could not be opened. */
  onFault: (fault: unknown) => void;
  /** Called when a thread died or hung; its rooms are mixed elsewhere. */
  onThreadLost: (reason: string) => void;
};

/**
 * Assigns each room a backend: this thread while mixing is little work, else the least busy mixing thread.
 * Commands of a `RoomMixer` go through a {@link MigratingMixEngine}, which knows the backend, to the {@link LocalMixEngine} there:
 * by a plain call, or in a {@link MixThread}'s batch.
 */
export class MixEnginePool {
  #codecSettings: CodecSettings;
  readonly #events: MixEnginePoolEvents;
  readonly #threads: (MixThread | undefined)[];
  readonly #rooms = new Set<MigratingMixEngine>();
  readonly #codecs: Codecs;
  readonly #inline: MixBackend;
  #lastLossAtMs = -Infinity;
  #isClosed = false;

  /** @param maxThreads maximum number of mixing threads; 0: all rooms are mixed in this thread */
  constructor(
    maxThreads: number,
    codecs: Codecs,
    codecSettings: CodecSettings,
    events: MixEnginePoolEvents,
  ) {
    this.#codecSettings = codecSettings;
    this.#events = events;
    this.#codecs = codecs;
    this.#threads = Array<undefined>(maxThreads).fill(undefined);
    this.#inline = inlineBackend(codecs, events.onFault);
  }

  /** Number of running threads. */
  get threads(): number {
    return this.#threads.filter((thread) => thread !== undefined).length;
  }

  /** Mixing time of each thread that may run, as a share of that for which it has time: 0 if it does not run. */
  get threadShares(): number[] {
    return this.#threads.map((thread) => (thread?.loadMs ?? 0) / FRAME_MS);
  }

  /** @param onTicked called once for each tick, when its output is complete or lost */
  openRoom(limits: JitterBufferLimits, output: MixOutput, onTicked: () => void): MixEngine {
    const room: MigratingMixEngine = new MigratingMixEngine(limits, output, onTicked, {
      first: this.#inline,
      choose: (leaving) => this.#choose(leaving),
      isCrowded: (backend) =>
        backend.loadMs > (backend === this.#inline ? INLINE_MAX_MS : THREAD_MAX_MS),
      onClose: () => this.#rooms.delete(room),
    });
    this.#rooms.add(room);
    return room;
  }

  /** Opens a level meter for a stream from outside this gateway. */
  async openLevelMeter(): Promise<LevelMeter> {
    return new LevelMeter(await this.#codecs.opus.createDecoder());
  }

  /** Opens an encoder of the beginning of a stream for decoders that have missed the packets before it; undefined if the codecs are not open. */
  async openLateBeginning(missed: readonly Buffer[]): Promise<LateBeginning | undefined> {
    try {
      return await LateBeginning.open(this.#codecs.opus, missed);
    } catch (fault) {
      this.#events.onFault(fault);
      return undefined;
    }
  }

  /** Sets the complexity of all encoders, in every backend: 0…10. */
  setComplexity(complexity: number): void {
    if (complexity === this.#codecSettings.complexity) return;
    this.#codecSettings = { ...this.#codecSettings, complexity };
    this.#codecs.opus.setComplexity(complexity);
    for (const thread of this.#threads) thread?.setComplexity(complexity);
  }

  /** Content of the jitter buffers of all mixed speakers: number of speakers, sum and maximum, ms. */
  get depth(): TickReport['depth'] {
    const sum = { speakers: 0, sumMs: 0, maxMs: 0 };
    for (const { depth } of this.#rooms) {
      sum.speakers += depth.speakers;
      sum.sumMs += depth.sumMs;
      sum.maxMs = Math.max(sum.maxMs, depth.maxMs);
    }
    return sum;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#threads.map((thread) => thread?.close() ?? Promise.resolve()));
  }

  #choose(leaving?: { backend: MixBackend; loadMs: number }): MixBackend {
    // A room leaves this thread for any other that has capacity. A room that leaves a mixing thread
    // adds its own load to that of the next backend.
    const addedMs = leaving?.backend.kind === 'thread' ? leaving.loadMs : 0;
    if (this.#inline.loadMs + addedMs <= INLINE_BUDGET_MS) return this.#inline;
    const ready = this.#threads.filter((thread) => thread?.isReady && thread !== leaving?.backend);
    const best = ready.toSorted((one, other) => one!.loadMs - other!.loadMs)[0];
    if (!best || best.loadMs > INLINE_BUDGET_MS) this.#startThread();
    const hasRoom = best && best.loadMs + addedMs < THREAD_BUDGET_MS;
    return hasRoom ? best : (leaving?.backend ?? this.#inline);
  }

  /**
   * Starts one more thread, unless all are running, one was lost within the last second, or the pool is closed. Rooms move to it once
   * it is ready.
   */
  #startThread(): void {
    const slot = this.#threads.indexOf(undefined);
    const isTooSoon = performance.now() - this.#lastLossAtMs < RESPAWN_EVERY_MS;
    if (slot === -1 || isTooSoon || this.#isClosed) return;
    try {
      const thread: MixThread = new MixThread(this.#codecSettings, {
        onFault: this.#events.onFault,
        onGone: (reason) => this.#threadGone(slot, thread, reason),
      });
      this.#threads[slot] = thread;
    } catch (fault) {
      // The system has no thread left. Rooms stay where they are; the next placement of a room
      // tries again.
      noteShortage(fault);
      this.#lastLossAtMs = performance.now();
      this.#events.onThreadLost(String(fault));
    }
  }

  #threadGone(slot: number, thread: MixThread, reason: string): void {
    this.#threads[slot] = undefined;
    if (this.#isClosed) return;
    this.#events.onThreadLost(reason);
    for (const room of this.#rooms) if (room.backend === thread) room.move();
    this.#startThread();
    this.#lastLossAtMs = performance.now();
  }
}

/** Returns a backend that mixes in this thread. */
export function inlineBackend(codecs: Codecs, onFault: (fault: unknown) => void): MixBackend {
  return {
    kind: 'inline',
    loadMs: 0,
    openRoom: (limits, output, onTicked) => {
      const engine = new LocalMixEngine(codecs, limits, output, onFault);
      return {
        apply: (plan) => engine.apply(plan),
        insert: (id, packet, nowMs) => engine.insert(id, packet, nowMs),
        tick: (nowMs, movedMs, isSkipped) => onTicked(engine.tick(nowMs, movedMs, isSkipped)),
        close: () => engine.close(),
      };
    },
  };
}
