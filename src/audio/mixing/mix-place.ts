import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { MixOutput, MixPacket, MixPlan, SpeakerId } from './mix-plan.ts';

/** The mixing half of one room, wherever it runs. */
export type MixRoom = {
  apply(plan: MixPlan): void;
  insert(id: SpeakerId, packet: MixPacket, nowMs: number): void;
  tick(nowMs: number): void;
  close(): void;
};

/** Somewhere a room may be mixed. */
export type MixPlace = {
  /** What the rooms that are mixed here take of every 20 ms. */
  loadMs: number;
  /** @param onCost is told what a tick took, in ms */
  openRoom(
    limits: JitterBufferLimits,
    output: MixOutput,
    onCost: (costMs: number) => void,
  ): MixRoom;
};
