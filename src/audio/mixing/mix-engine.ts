import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { MixOutput, MixPacket, MixPlan, SpeakerId } from './mix-plan.ts';

/** The mixing half of one room, wherever it runs. */
export type MixEngine = {
  apply(plan: MixPlan): void;
  insert(id: SpeakerId, packet: MixPacket, nowMs: number): void;
  tick(nowMs: number): void;
  close(): void;
};

/** Result of a tick of a room. */
export type TickReport = {
  costMs: number;
  /** Packets that were dropped since the tick before, by why that was. */
  dropped: { late: number; undecodable: number };
  /** How much is held of those who are mixed. */
  depth: { speakers: number; sumMs: number; maxMs: number };
};

/** Somewhere a room may be mixed. */
export type MixBackend = {
  readonly kind: 'inline' | 'thread';
  /** Time that the rooms mixed here take of every 20 ms. */
  loadMs: number;
  /** @param onTicked is told what became of each tick */
  openRoom(
    limits: JitterBufferLimits,
    output: MixOutput,
    onTicked: (report: TickReport) => void,
  ): MixEngine;
};
