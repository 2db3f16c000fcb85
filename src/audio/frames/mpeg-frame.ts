import type { FrameFormat, FrameHeader } from './frame-header.ts';

/** MPEG audio (ISO/IEC 11172-3, 13818-3), Layers II and III: a header of four bytes, which determines the length of the frame. */

const RATES_HZ = [44_100, 48_000, 32_000] as const;
/** Bit rates by index 1…14, kbit/s. */
const LAYER_3_KBPS = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320] as const;
const LAYER_2_KBPS = [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384] as const;
/** Bit rates of the lower sample rates that MPEG-2 adds. */
const LOW_KBPS = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160] as const;

/** MPEG version, two bits of the header. */
const MPEG_1 = 3;
const MPEG_2 = 2;
const NO_VERSION = 1;
const LAYER_3 = 1;
const LAYER_2 = 2;
const ONE_CHANNEL = 3;
const NO_EMPHASIS = 2;

const HEADER_BYTES = 4;
const CHECKSUM_BYTES = 2;
/** Offset of `VBRI` in the frame in which the encoder of Fraunhofer describes a file. */
const VBRI_AT = 36;

export const MPEG_FRAMES: FrameFormat = {
  headerBytes: HEADER_BYTES,
  parse: parseMpegHeader,
  isDescription: describesFile,
};

/**
 * True for a frame of Layer III that has the length and the table of positions of a file in place of sound, as encoders write it before
 * the others: `Xing` or `Info` behind the side information, or `VBRI`.
 */
function describesFile(frame: Buffer): boolean {
  const second = frame[1]!;
  if (((second >> 1) & 3) !== LAYER_3) return false;
  const isFull = ((second >> 3) & 3) === MPEG_1;
  const isMono = frame[3]! >> 6 === ONE_CHANNEL;
  const sideBytes = isFull ? (isMono ? 17 : 32) : isMono ? 9 : 17;
  const at = HEADER_BYTES + ((second & 1) === 0 ? CHECKSUM_BYTES : 0) + sideBytes;
  const name = frame.toString('latin1', at, at + 4);
  if (name === 'Xing' || name === 'Info') return true;
  return frame.toString('latin1', VBRI_AT, VBRI_AT + 4) === 'VBRI';
}

function parseMpegHeader(bytes: Buffer, at: number): FrameHeader | undefined {
  const [first, second, third, fourth] = [
    bytes[at]!,
    bytes[at + 1]!,
    bytes[at + 2]!,
    bytes[at + 3]!,
  ];
  if (first !== 0xff || second < 0xe0) return undefined;
  const version = (second >> 3) & 3;
  const layer = (second >> 1) & 3;
  if (version === NO_VERSION || (layer !== LAYER_3 && layer !== LAYER_2)) return undefined;
  const isFull = version === MPEG_1;
  const kbps = (isFull ? (layer === LAYER_3 ? LAYER_3_KBPS : LAYER_2_KBPS) : LOW_KBPS)[
    (third >> 4) - 1
  ];
  const fullRateHz = RATES_HZ[(third >> 2) & 3];
  // With a bit rate of 0 the reader must search the next header: no client sends that.
  if (kbps === undefined || fullRateHz === undefined || (fourth & 3) === NO_EMPHASIS) {
    return undefined;
  }
  const rateHz = fullRateHz >> (isFull ? 0 : version === MPEG_2 ? 1 : 2);
  const samples = isFull || layer === LAYER_2 ? 1152 : 576;
  const padding = (third >> 1) & 1;
  return {
    bytes: Math.floor((samples * 125 * kbps) / rateHz) + padding,
    samples,
    rateHz,
    channels: fourth >> 6 === ONE_CHANNEL ? 1 : 2,
    streamKey: ((second & 0xfe) << 8) | (third & 0x0c),
  };
}
