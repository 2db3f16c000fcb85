import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { MixOutput, MixPacket, MixPlan, SpeakerId } from './mix-plan.ts';

/**
 * Mix engine of one room, as its `RoomMixer` sees it. A {@link MixBackend} opens one that passes the calls to the `LocalMixEngine` that
 * mixes: by plain calls in this thread, by messages to a mixing thread. A `MigratingMixEngine` passes them to the engine of one backend
 * after another.
 */
export type MixEngine = {
  apply(plan: MixPlan): void;
  insert(id: SpeakerId, packet: MixPacket, nowMs: number): void;
  /**
   * Mixes the next 20 ms.
   * @param movedMs change of the tick's phase since the previous tick, ms; negative if ticks come earlier
   * @param isSkipped true if the next 20 ms of all speakers are dropped instead, which costs little
   */
  tick(nowMs: number, movedMs: number, isSkipped?: boolean): void;
  close(): void;
};

/** Result of a tick of a room. */
export type TickReport = {
  /** Time that the tick took, ms. */
  costMs: number;
  isSkipped: boolean;
  /** Number of packets that were dropped since the previous tick, by reason. */
  dropped: { late: number; undecodable: number };
  /** Content of the jitter buffers of the mixed speakers. */
  depth: { speakers: number; sumMs: number; maxMs: number };
};

/** Thread in which rooms can be mixed: this one, or a mixing thread. */
export type MixBackend = {
  readonly kind: 'inline' | 'thread';
  /** Mixing time of the rooms in this backend, ms per tick of 20 ms. */
  loadMs: number;
  /** @param onTicked called with the result of each tick */
  openRoom(
    limits: JitterBufferLimits,
    output: MixOutput,
    onTicked: (report: TickReport) => void,
  ): MixEngine;
};
