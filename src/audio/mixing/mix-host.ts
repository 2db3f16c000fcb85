import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { Codecs } from '../codecs.ts';
import type { MixOutput, MixPacket, MixPlan, SpeakerId } from './mix-plan.ts';
import { RoomMix } from './room-mix.ts';

/** The mixing half of one room, wherever it runs. */
export type MixRoom = {
  apply(plan: MixPlan): void;
  insert(id: SpeakerId, packet: MixPacket, nowMs: number): void;
  tick(nowMs: number): void;
  close(): void;
};

/** Where rooms are mixed. */
export type MixHost = {
  openRoom(limits: JitterBufferLimits, output: MixOutput): MixRoom;
};

/** Mixes in this thread. */
export class InlineMixHost implements MixHost {
  readonly #codecs: Codecs;
  readonly #onFault: (fault: unknown) => void;

  /** @param onFault a codec could not be opened */
  constructor(codecs: Codecs, onFault: (fault: unknown) => void) {
    this.#codecs = codecs;
    this.#onFault = onFault;
  }

  openRoom(limits: JitterBufferLimits, output: MixOutput): MixRoom {
    return new RoomMix(this.#codecs, limits, output, this.#onFault);
  }
}
