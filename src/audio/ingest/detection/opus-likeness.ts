import { isCelt, isOpusSilence } from '../../opus-packet.ts';
import { RangeDecoder } from './range-decoder.ts';

/**
 * How much more likely sound makes it that a bit is as in the packet before, or is not, than chance does, as powers of two: voice activity, copies
 * of the packet before, and the filter of a pitch go on for many packets.
 */
const SAME_BITS = 0.8;
const OTHER_BITS = -1.9;
/** The same for a pitch that goes on, within a sixth of an octave, and for one that does not. */
const SAME_PITCH_BITS = 3.5;
const OTHER_PITCH_BITS = -1.5;
const SAME_PITCH_OCTAVES = 0.17;
/** The same for leaning on the frame before, as almost all frames do but the first, or as none does. */
const SAME_LEANING_BITS = 0.2;
const OTHER_LEANING_BITS = -2;
/** No evidence is so strong that it could not be outweighed within half a second. */
const MOST_BITS = 8;
/** Evidence by which packets are taken for random ones; those of words and room noise were above −10. */
const RANDOM_BITS = -14;
/** The same where nothing more is waited for, for each packet, because random ones lose 0.9 each; and for few packets. */
const LATE_RANDOM_BITS = -0.45;
const FEW_RANDOM_BITS = -3;
/** Three packets of an encoder that has just begun are above this. */
const DOUBTFUL_BITS = -0.5;

type Head = { flags: boolean[]; pitch: number; isIntra: boolean };

/**
 * Weighs if packets of Opus go on from each other as sound does, or are random behind their first byte, as encrypted ones are. It reads the first symbols
 * of packets of one frame: nothing else in them tells.
 */
export class OpusLikeness {
  /** Evidence of each packet beside the last one, and beside the last but one: encoders of a tone take turns. */
  #besideLast = 0;
  #besideLastButOne = 0;
  #last: Head | undefined;
  #lastButOne: Head | undefined;
  #heads = 0;

  /** Evidence so far, as a power of two: below zero the packets are random. */
  get bits(): number {
    return Math.max(this.#besideLast, this.#besideLastButOne);
  }

  /** Returns true if no sound is so unlike itself, or hardly any if that must be decided now. */
  isRandom(isLate = false): boolean {
    const late = Math.min(FEW_RANDOM_BITS, LATE_RANDOM_BITS * this.#heads);
    return this.bits < (isLate ? Math.max(RANDOM_BITS, late) : RANDOM_BITS);
  }

  /** True if more packets should come before anything is said. */
  get isDoubtful(): boolean {
    return this.bits < DOUBTFUL_BITS;
  }

  push(packet: Buffer): void {
    if ((packet[0]! & 3) !== 0 || isOpusSilence(packet)) return;
    const head = isCelt(packet) ? celtHead(packet) : silkHead(packet);
    const last = this.#last;
    const lastButOne = this.#lastButOne ?? last;
    this.#lastButOne = last;
    this.#last = head;
    if (!head || !last || !lastButOne) return;
    this.#heads += 1;
    // The first frame of an encoder has nothing to lean on.
    const isFirst = this.#heads === 1;
    this.#besideLast = Math.min(MOST_BITS, this.#besideLast + bitsBeside(last, head, isFirst));
    this.#besideLastButOne = Math.min(
      MOST_BITS,
      this.#besideLastButOne + bitsBeside(lastButOne, head, isFirst),
    );
  }
}

function bitsBeside(before: Head, head: Head, isFirst: boolean): number {
  if (before.flags.length !== head.flags.length) return 0;
  let bits = 0;
  if (!isFirst) bits += head.isIntra === before.isIntra ? SAME_LEANING_BITS : OTHER_LEANING_BITS;
  for (const [i, flag] of head.flags.entries()) {
    bits += flag === before.flags[i] ? SAME_BITS : OTHER_BITS;
  }
  if (before.pitch > 0 && head.pitch > 0) {
    const octaves = Math.abs(Math.log2(head.pitch / before.pitch));
    bits += octaves < SAME_PITCH_OCTAVES ? SAME_PITCH_BITS : OTHER_PITCH_BITS;
  }
  return bits;
}

/** RFC 6716 §4.2.3: whether there is voice in the first 20 ms, and whether there is a copy. */
function silkHead(packet: Buffer): Head {
  const config = packet[0]! >> 3;
  const voiceFlags = config < 12 ? Math.max(1, config & 3) : 1;
  const isSet = (at: number) => ((packet[1]! >> (7 - at)) & 1) === 1;
  return { flags: [isSet(0), isSet(voiceFlags)], pitch: 0, isIntra: false };
}

const SILENCE_LOG_P = 15;
const PITCH_OCTAVES = 6;
const LEAST_PITCH_SAMPLES = 16;

/** RFC 6716 §4.3: silence, the filter of a pitch, a transient, and energies without prediction. */
function celtHead(packet: Buffer): Head | undefined {
  const decoder = new RangeDecoder(packet.subarray(1));
  if (decoder.bit(SILENCE_LOG_P)) return undefined;
  const hasPitch = decoder.bit(1);
  let pitch = 0;
  if (hasPitch) {
    const octave = decoder.uniform(PITCH_OCTAVES);
    pitch = LEAST_PITCH_SAMPLES * 2 ** octave + decoder.raw(4 + octave) - 1;
    decoder.raw(3);
    // Its tap set: one value in two, the others in four.
    if (!decoder.bit(1)) decoder.bit(1);
  }
  const isLongEnough = (packet[0]! >> 3) & 3;
  if (isLongEnough) decoder.bit(3);
  return { flags: [hasPitch], pitch, isIntra: decoder.bit(3) };
}
