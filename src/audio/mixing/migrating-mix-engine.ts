import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import { counters } from '../../counters.ts';
import { FRAME_SAMPLES } from '../format.ts';
import { opusPacketSamples } from '../opus-packet.ts';
import { Arrivals } from './arrivals.ts';
import type { MixBackend, MixEngine, TickReport } from './mix-engine.ts';
import type { MixOutput, MixPacket, MixPlan, SpeakerId } from './mix-plan.ts';
import { PacketHistory } from './packet-history.ts';

/** Assumed cost of a room per 20 ms until it has been measured, ms. */
const ASSUMED_COST_MS = 0.2;
/** Each tick moves the measured cost by this share of the difference. */
const COST_WEIGHT = 1 / 16;
/** Maximum number of packets of a speaker that are kept while a room moves; more than a jitter buffer holds. */
const MAX_WAITING_PACKETS = 100;
/** Lateness of the oldest incomplete tick from which a backend is too slow for its rooms, ms. */
const MAX_LATE_MS = 200;

const NO_PLAN: MixPlan = { speakers: [], leaving: [], added: [], mixes: [] };
const NOBODY: TickReport['depth'] = { speakers: 0, sumMs: 0, maxMs: 0 };

/** Backends in which a room can be mixed. */
export type MixBackends = {
  first: MixBackend;
  /**
   * Returns the backend for a room in which a peer begins to talk.
   * @param leaving a backend that the room should leave while peers talk, and the room's load there: returned if no other has room
   */
  choose: (leaving?: { backend: MixBackend; loadMs: number }) => MixBackend;
  /** True if a room should leave this backend even while a peer talks. */
  isCrowded: (backend: MixBackend) => boolean;
  onClose: () => void;
};

/** Packets of a speaker that have been played, and those that wait: another backend can continue from them. */
type History = {
  played: PacketHistory<{ payload: Buffer; durationSamples: number }>;
  waiting: { packet: MixPacket; atMs: number }[];
  arrivals: Arrivals;
  /** Length of the end of the last played packet that the mixes had not reached after its tick, samples. */
  restSamples: number;
  /** Number of complete ticks when it was played. */
  atTick: number;
};

/**
 * Mix engine of a room that can move to another backend: when a peer begins to talk after a silence, and when the
 * backend dies or is overloaded. Packets that have not been played are mixed in the new one.
 */
export class MigratingMixEngine implements MixEngine {
  readonly #limits: JitterBufferLimits;
  readonly #output: MixOutput;
  readonly #onTicked: () => void;
  readonly #backends: MixBackends;
  readonly #histories = new Map<SpeakerId, History>();
  #plan: MixPlan = NO_PLAN;
  #backend: MixBackend;
  #engine: MixEngine;
  #costMs = ASSUMED_COST_MS;
  #depth = NOBODY;
  /** Times of the ticks whose output is incomplete, ms, oldest first. */
  #openTicksAtMs: number[] = [];
  /** Number of complete ticks. */
  #ticks = 0;
  /** Cost of this room that counts in the load of the backend, ms a tick: 0 while no speaker is mixed. */
  #countedMs = 0;

  /** @param onTicked called once for each tick, when its output is complete or lost */
  constructor(
    limits: JitterBufferLimits,
    output: MixOutput,
    onTicked: () => void,
    backends: MixBackends,
  ) {
    this.#limits = limits;
    this.#onTicked = onTicked;
    this.#backends = backends;
    this.#output = {
      ...output,
      passed: (id, packet, restSamples, atMs) => {
        this.#played(id, packet, restSamples);
        output.passed(id, packet, restSamples, atMs);
      },
    };
    this.#backend = backends.first;
    this.#engine = this.#openIn(this.#backend);
  }

  get backend(): MixBackend {
    return this.#backend;
  }

  /** Content of the jitter buffers of the mixed speakers at the last tick. */
  get depth(): TickReport['depth'] {
    return this.#plan.speakers.length > 0 ? this.#depth : NOBODY;
  }

  apply(plan: MixPlan): void {
    const begins = this.#plan.speakers.length === 0 && plan.speakers.length > 0;
    if (begins) this.#moveTo(this.#backends.choose());
    this.#plan = plan;
    for (const id of this.#histories.keys()) {
      if (!plan.speakers.includes(id)) this.#histories.delete(id);
    }
    for (const { id, recent } of plan.added) {
      const history: History = {
        played: new PacketHistory(),
        waiting: [],
        arrivals: new Arrivals(),
        restSamples: 0,
        atTick: 0,
      };
      for (const payload of recent) history.played.push(playedPacket(payload));
      this.#histories.set(id, history);
    }
    this.#count();
    this.#engine.apply(plan);
  }

  insert(id: SpeakerId, packet: MixPacket, nowMs: number): void {
    const history = this.#histories.get(id);
    if (history) {
      const { waiting, arrivals } = history;
      arrivals.add(packet.timestamp, nowMs);
      waiting.push({ packet, atMs: nowMs });
      if (waiting.length > MAX_WAITING_PACKETS) waiting.shift();
    }
    this.#engine.insert(id, packet, nowMs);
  }

  tick(nowMs: number, movedMs: number): void {
    const { speakers, leaving: ending } = this.#plan;
    // The backend that began a word also mixes its end.
    const mayMove = speakers.length > 0 && ending.length === 0;
    if (mayMove && (this.#isLate(nowMs) || this.#backends.isCrowded(this.#backend))) {
      const leaving = { backend: this.#backend, loadMs: this.#countedMs };
      // Lost ticks are reported before this one, which is complete at once in the event loop.
      this.#moveTo(this.#backends.choose(leaving), (report) => report());
    }
    // A speaker that ends needs its tick, in which it fades out.
    const isSkipped = this.#isLate(nowMs) && ending.length === 0;
    this.#openTicksAtMs.push(nowMs);
    this.#engine.tick(nowMs, movedMs, isSkipped);
  }

  #isLate(nowMs: number): boolean {
    return nowMs - (this.#openTicksAtMs[0] ?? nowMs) >= MAX_LATE_MS;
  }

  /** Continues in another backend while a peer talks. */
  move(): void {
    this.#moveTo(this.#backends.choose());
  }

  close(): void {
    this.#plan = NO_PLAN;
    this.#count();
    this.#engine.close();
    this.#backends.onClose();
  }

  /** @param later runs a report of lost ticks, once this room has finished its current work */
  #moveTo(backend: MixBackend, later: (report: () => void) => void = queueMicrotask): void {
    if (backend === this.#backend) return;
    this.#engine.close();
    this.#backend.loadMs -= this.#countedMs;
    backend.loadMs += this.#countedMs;
    this.#backend = backend;
    this.#engine = this.#openIn(backend);
    const added = [...this.#histories].map(([id, history]) => ({
      id,
      recent: history.played.forDecoder,
      isHeard: history.played.last !== undefined,
      next: history.waiting[0]?.packet.sequenceNumber,
      pace: history.arrivals.pace,
      prerollSamples: this.#restSamples(history),
    }));
    // Listeners hear these mixes already: no transition is needed.
    const mixes = this.#plan.mixes.map((mix) => {
      const goesOn = { ...mix };
      delete goesOn.joinedFrom;
      return goesOn;
    });
    if (this.#plan.speakers.length > 0) this.#engine.apply({ ...this.#plan, mixes, added });
    for (const [id, { waiting }] of this.#histories) {
      for (const { packet, atMs } of waiting) this.#engine.insert(id, packet, atMs);
    }
    const lost = this.#openTicksAtMs.length;
    this.#openTicksAtMs = [];
    // Ticks that were begun in the old backend.
    later(() => {
      for (let i = 0; i < lost; i += 1) this.#onTicked();
    });
  }

  #openIn(backend: MixBackend): MixEngine {
    return backend.openRoom(this.#limits, this.#output, ({ costMs, isSkipped, dropped, depth }) => {
      if (isSkipped) counters.mixing.skippedTicks += 1;
      else counters.mixing[backend.kind].ticks += 1;
      counters.mixing[backend.kind].costMs += costMs;
      counters.dropped.late += dropped.late;
      counters.dropped.undecodable += dropped.undecodable;
      this.#depth = depth;
      // The load of a backend is what its rooms cost if nothing is skipped.
      if (!isSkipped && depth.speakers > 0) this.#costMs += (costMs - this.#costMs) * COST_WEIGHT;
      this.#count();
      this.#openTicksAtMs.shift();
      this.#ticks += 1;
      this.#onTicked();
    });
  }

  /** Returns the length of the end of the last played packet that the mixes have not reached, samples. */
  #restSamples({ restSamples, atTick }: History): number {
    const laterTicks = Math.max(0, this.#ticks - atTick - 1);
    return Math.max(0, restSamples - laterTicks * FRAME_SAMPLES);
  }

  #count(): void {
    const countedMs = this.#plan.speakers.length > 0 ? this.#costMs : 0;
    this.#backend.loadMs += countedMs - this.#countedMs;
    this.#countedMs = countedMs;
  }

  /** Counts lost packets as played, too: as empty ones. */
  #played(id: SpeakerId, packet: Buffer, restSamples: number): void {
    const history = this.#histories.get(id);
    if (!history) return;
    history.restSamples = restSamples;
    history.atTick = this.#ticks;
    const { played, waiting } = history;
    // A mix in this thread plays the packet itself, another thread a copy.
    const index = waiting.findIndex(
      ({ packet: { payload } }) => payload === packet || payload.equals(packet),
    );
    waiting.splice(0, index + 1);
    played.push(playedPacket(packet));
  }
}

const playedPacket = (payload: Buffer) => ({
  payload,
  durationSamples: opusPacketSamples(payload) ?? 0,
});
