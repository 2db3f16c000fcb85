import { SILENCE_LEVEL } from '../rtp/packet.ts';
import { audioLevelOf } from './level.ts';
import type { OpusDecoder } from './opus-codec.ts';
import { isOpusSilence } from './opus-packet.ts';

/** Audio level (RFC 6464) from which a stated level is believed: a packet that soft displaces no speaker from a mix. */
const CHECKED_LEVEL = 55;
/** Interval, in packets, at which a packet that is stated to be louder is decoded. */
const CHECK_EVERY = 5;
/** Number of decoded packets after which their stated levels are compared with those that were measured. */
const CHECKED_PACKETS = 10;
/** Ratio of powers beyond which stated levels are suspected: a decoder that has missed packets is wrong by less on average. */
const SUSPICIOUS_RATIO = 10 ** (10 / 10);
/** Ratio of powers beyond which stated levels are wrong, measured by a decoder that has missed no packet. */
const WRONG_RATIO = 10 ** (4 / 10);

/** Trust in the levels that a sender states: checked now and then, checked closely, or measured instead. */
type Belief = 'believed' | 'suspected' | 'measured';

/**
 * Determines the level of the packets of one stream: the level that the sender states (RFC 6464) while it proves true, else the level
 * measured by decoding each packet.
 */
export class LevelMeter {
  readonly #decoder: OpusDecoder;
  #belief: Belief = 'believed';
  #untilCheck = 0;
  #checked = { packets: 0, statedPower: 0, measuredPower: 0 };

  constructor(decoder: OpusDecoder) {
    this.#decoder = decoder;
  }

  /** Returns the audio level of the next packet; `stated` is undefined if the sender states none. */
  levelOf(packet: Buffer, stated: number | undefined): number {
    if (stated === undefined || this.#belief === 'measured') return this.#measure(packet);
    if (stated >= CHECKED_LEVEL) return stated;
    if (this.#belief === 'believed') {
      this.#untilCheck -= 1;
      if (this.#untilCheck > 0) return stated;
      this.#untilCheck = CHECK_EVERY;
    }
    const measured = this.#measure(packet);
    this.#compare(stated, measured);
    return this.#belief === 'believed' ? stated : measured;
  }

  close(): void {
    this.#decoder.close();
  }

  #measure(packet: Buffer): number {
    if (isOpusSilence(packet)) return SILENCE_LEVEL;
    try {
      return audioLevelOf(this.#decoder.decode(packet));
    } catch {
      // A packet that does not decode is inaudible to all listeners.
      return SILENCE_LEVEL;
    }
  }

  #compare(stated: number, measured: number): void {
    this.#checked.packets += 1;
    this.#checked.statedPower += 10 ** (-stated / 10);
    this.#checked.measuredPower += 10 ** (-measured / 10);
    const { packets, statedPower, measuredPower } = this.#checked;
    if (packets < CHECKED_PACKETS) return;
    this.#checked = { packets: 0, statedPower: 0, measuredPower: 0 };
    if (this.#belief === 'believed') {
      if (statedPower > SUSPICIOUS_RATIO * measuredPower) this.#belief = 'suspected';
    } else {
      this.#belief = statedPower > WRONG_RATIO * measuredPower ? 'measured' : 'believed';
    }
  }
}
