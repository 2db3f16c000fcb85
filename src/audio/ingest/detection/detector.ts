import {
  type AudioFormat,
  type InputFormat,
  isInputOnly,
  type OpaqueFormat,
  type SampleCodec,
} from '../../format.ts';
import { SAMPLES_PER_MS } from '../../../rtp/clock-rate.ts';
import { opusPacketSamples } from '../../opus-packet.ts';
import { MAX_SNIFFED_BYTES, recognise } from '../../recognise.ts';
import { bytesToNext, frameBytesOf } from '../../samples.ts';
import { novelBytesOf, readAsSamples, type Reading } from './code-length.ts';
import { type TimedMessage, bytesPerMsOf, elapsedMsOf, pacedOf } from './pace.ts';
import { isDigitalSilence, isOfEitherWidth } from './silence.ts';

/** `confidence`: 0…1, by how much the next best explanation is worse. */
export type Detection = { format: InputFormat; confidence: number };

/** So many messages show how far apart they are. */
const LEAST_MESSAGES = 3;
/** What has been heard for this long must do. */
const DEADLINE_MS = 500;
/** The same when the network has stalled meanwhile. */
const STALLED_DEADLINE_MS = 1000;
/** Almost three times what the widest format takes in that time: of who sends it at once no pace is waited for. */
const MAX_HELD_BYTES = 1 << 20;
/** Messages that are held at most: twice what comes in a second from a sender of a message every 2 ms. */
const MAX_HELD_MESSAGES = 1024;
/** Bytes that are weighed at most: more make the answer no surer, and take longer. */
const MAX_WEIGHED_BYTES = 8192;
/** Surer than this there is nothing to wait for. */
const SURE = 0.98;
/** No format of samples takes so few bytes a second; Opus seldom takes more. */
const LEAST_SAMPLE_BYTES_PER_S = 6500;

const RATES_HZ = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
/** How far messages may come from their time, and how exact a sender's clock is. */
const JITTER_MS = 6;
const CLOCK_ERROR = 0.01;
/** Sound is less random than its model: of the bits that a reading saves, so many count as evidence. */
const EVIDENCE_PER_BIT = 0.1;
/** Worse than any mismatch of rates can be. */
const MAX_RATE_BITS = 300;
/** What the first byte of a message costs that only seems to be a packet of Opus: 8 bits, less what that rules out. */
const RANDOM_HEAD_BITS = 7;
/** What could be Opus is not unknown before so much of it has come. */
const LEAST_UNKNOWN_BYTES = 64;
/** What it costs of Opus that begins otherwise than the packet before it. */
const CHANGED_HEAD_BITS = 10;
/** Sound that is not made by a computer says so much new within its first moments. */
const LEAST_NOVEL_BYTES = 512;
/** In every format so many bytes are a whole number of samples of all channels. */
const WHOLE_BYTES = 8;

/**
 * Finds out what a sender sends, from the bytes and the pace at which they come. Pure: the caller says what time it is.
 * It weighs what each format would have to explain (bits, {@link readAsSamples}); a container tells by its first bytes.
 */
export class FormatDetector {
  /** All that came; for the caller to play once the format is known. */
  readonly arrivals: TimedMessage[] = [];
  /** So much of what the sender sends came before that: messages may cut samples in two. */
  readonly startsAtBytes: number;
  #bytes = 0;
  #weighedBytes = 0;
  /** What came first, as far as structure is looked for in it. */
  #start: Buffer = Buffer.alloc(0);
  #sniffedBytes = 0;
  #found: ReturnType<typeof recognise>;
  #isSilent = true;

  constructor(startsAtBytes = 0) {
    this.startsAtBytes = startsAtBytes;
  }

  /** True if nothing but digital silence came: what is detected then is a guess. */
  get isSilentSoFar(): boolean {
    return this.#isSilent;
  }

  /** True if what is detected of silence is a guess that might do harm. */
  get isOfEitherWidth(): boolean {
    const { message } = this.arrivals[0]!;
    const paced = pacedOf(this.arrivals) ?? this.arrivals;
    return isOfEitherWidth(message, bytesPerMsOf(paced));
  }

  /** Looks for structure in what came first: again when there is half as much again of it. */
  #recognise(message: Buffer): ReturnType<typeof recognise> {
    if (this.#start.length < MAX_SNIFFED_BYTES) {
      this.#start = this.#start.length === 0 ? message : Buffer.concat([this.#start, message]);
      if (this.#start.length >= this.#sniffedBytes * 1.5) {
        this.#sniffedBytes = this.#start.length;
        this.#found = recognise(this.#start);
      }
    }
    return this.#found;
  }

  /**
   * Takes one message.
   * @returns the format as soon as it is beyond doubt, and at the latest after half a second, or after one in which the
   *   network has stalled
   */
  push(message: Buffer, nowMs: number): Detection | undefined {
    this.arrivals.push({ message, atMs: nowMs });
    this.#bytes += message.length;
    this.#isSilent &&= isDigitalSilence(message);
    const found = this.#recognise(message);
    if (found && isInputOnly(found)) return { format: { codec: found }, confidence: 1 };
    if (this.arrivals.length < LEAST_MESSAGES) return undefined;
    const elapsedMs = elapsedMsOf(this.arrivals);
    const intervalMs = elapsedMs / (this.arrivals.length - 1);
    const isFull = this.#bytes >= MAX_HELD_BYTES || this.arrivals.length >= MAX_HELD_MESSAGES;
    const isLate = isFull || elapsedMs + 2 * intervalMs > DEADLINE_MS;
    if (found === 'more' && !isLate) return undefined;
    // Weighing is work: it is done again when there is half as much again to go by.
    if (!isLate && this.#bytes < this.#weighedBytes * 1.5) return undefined;
    const paced = pacedOf(this.arrivals);
    if (!paced && !isFull && elapsedMs < STALLED_DEADLINE_MS) return undefined;
    this.#weighedBytes = this.#bytes;
    const sound = soundOf(this.arrivals, this.startsAtBytes);
    const novelBytes = novelBytesOf(sound);
    const novelShare = sound.length > 0 ? novelBytes / sound.length : 1;
    const detection = detectFormat(this.arrivals, paced ?? this.arrivals, sound, novelShare);
    if (!detection || isLate) return detection;
    // What repeats itself tells little by how it looks: its pace must, which takes time to be seen.
    const isTelling = sound.length === 0 || novelBytes >= LEAST_NOVEL_BYTES;
    return isTelling && detection.confidence >= SURE ? detection : undefined;
  }
}

const DETECTABLE: ReadonlySet<string> = new Set([
  'opus',
  'pcm_s16le',
  'pcm_f32le',
  'pcmu',
  'pcma',
  'opaque',
]);

/** True for formats that are told from others in the middle of a stream, too. */
export const isDetectable = ({ codec }: InputFormat): boolean => DETECTABLE.has(codec);

type Explanation = { format: AudioFormat | OpaqueFormat; bits: number };

/**
 * Weighs the formats; undefined if nothing explains what came.
 * @param paced two or more of the last that came, whose times are to be explained too
 * @param sound what came, from its first sound on
 * @param novelShare how much of it counts: what repeats itself exactly does so once, whatever it is taken for
 */
function detectFormat(
  arrivals: TimedMessage[],
  paced: TimedMessage[],
  sound: Buffer,
  novelShare: number,
): Detection | undefined {
  const opusBits = explainAsOpus(arrivals, paced, novelShare);
  const isTooSlow = bytesPerMsOf(paced) * 1000 < LEAST_SAMPLE_BYTES_PER_S;
  const explanations: Explanation[] = [];
  if (opusBits !== undefined) explanations.push({ format: { codec: 'opus' }, bits: opusBits });
  if (opusBits === undefined || !isTooSlow) {
    explanations.push(...explainAsSamples(arrivals, paced, sound, novelShare));
  }
  // Packets without sound (DTX) are too short to be told from anything but by their heads.
  const isTelling = sound.length * novelShare >= LEAST_UNKNOWN_BYTES;
  if (sound.length > 0 && (opusBits === undefined || isTelling)) {
    const bits = unexplainedBits(arrivals, sound, novelShare);
    explanations.push({ format: { codec: 'opaque' }, bits });
  }
  explanations.sort((a, b) => a.bits - b.bits);
  const [best, second] = explanations;
  if (!best) return undefined;
  const marginBits = second ? second.bits - best.bits : Infinity;
  return { format: best.format, confidence: 1 / (1 + 2 ** -marginBits) };
}

/** What no format explains costs 8 bits a byte; where messages begin alike, as packets of Opus do, that it is by chance. */
function unexplainedBits(arrivals: TimedMessage[], sound: Buffer, novelShare: number): number {
  const headBits = opusHeadBits(arrivals);
  if (headBits === undefined) return EVIDENCE_PER_BIT * 8 * sound.length * novelShare;
  const bytes = arrivals.reduce((total, { message }) => total + message.length, 0);
  const chanceBits = Math.max(0, RANDOM_HEAD_BITS * arrivals.length - headBits);
  return EVIDENCE_PER_BIT * 8 * bytes * novelShare + chanceBits;
}

/** What the first bytes cost if they are those of Opus packets; undefined if a message is none. */
function opusHeadBits(arrivals: TimedMessage[]): number | undefined {
  let bits = 0;
  let lastConfiguration: number | undefined;
  for (const { message } of arrivals) {
    if (opusPacketSamples(message) === undefined) return undefined;
    const configuration = message[0]! >> 2;
    bits += configuration === lastConfiguration ? 0.5 : CHANGED_HEAD_BITS;
    lastConfiguration = configuration;
  }
  return bits;
}

/** Opus cannot be compressed further: 8 bits a byte, but its TOC byte repeats, and its durations keep pace with time. */
function explainAsOpus(
  arrivals: TimedMessage[],
  paced: TimedMessage[],
  novelShare: number,
): number | undefined {
  const headBits = opusHeadBits(arrivals);
  if (headBits === undefined) return undefined;
  const bits = arrivals.reduce(
    (total, { message }) => total + EVIDENCE_PER_BIT * 8 * (message.length - 1) * novelShare,
    headBits,
  );
  const elapsedMs = elapsedMsOf(paced);
  const claimedMs = paced
    .slice(0, -1)
    .reduce((total, { message }) => total + (opusPacketSamples(message) ?? 0) / SAMPLES_PER_MS, 0);
  const ahead = (claimedMs + 1) / (elapsedMs + 1);
  // Pauses make it slower than time; nothing makes it much faster.
  return bits + Math.min(ahead > 1 ? 100 : 10, mismatchBits(ahead, elapsedMs));
}

function explainAsSamples(
  arrivals: TimedMessage[],
  paced: TimedMessage[],
  sound: Buffer,
  novelShare: number,
): Explanation[] {
  const messages = arrivals.map(({ message }) => message);
  const readings = sound.length > 0 ? readAsSamples(sound) : readSilence(messages);
  const elapsedMs = elapsedMsOf(paced);
  const bytesPerMs = bytesPerMsOf(paced);
  return readings.flatMap(({ codec, channels, bitsPerByte }) =>
    ratesOf(codec).map((rateHz) => {
      const frameBytes = frameBytesOf({ codec, channels });
      const expectedBytesPerMs = (rateHz * frameBytes) / 1000;
      const rateBits = mismatchBits(bytesPerMs / expectedBytesPerMs, elapsedMs);
      return {
        format: { codec, rateHz, channels },
        bits:
          EVIDENCE_PER_BIT * bitsPerByte * sound.length * novelShare +
          rateBits +
          oddityBits(messages, frameBytes, rateHz),
      };
    }),
  );
}

/** What came, as far as it is weighed, without messages of silence; it begins with a whole sample of any format. */
function soundOf(arrivals: TimedMessage[], startsAtBytes: number): Buffer {
  // What is left out must not shift what follows by part of a sample.
  const sounding = arrivals.map(({ message }) =>
    isDigitalSilence(message) ? message.subarray(0, message.length % WHOLE_BYTES) : message,
  );
  return fromFirstSound(Buffer.concat(sounding).subarray(bytesToNext(WHOLE_BYTES, startsAtBytes)));
}

/** Without the silence before it: where sound begins at once, what cannot be foretold of it is that beginning. */
function fromFirstSound(bytes: Buffer): Buffer {
  const silentBytes = bytes.findIndex((byte) => byte !== bytes[0]);
  const from = silentBytes - (silentBytes % WHOLE_BYTES);
  return bytes.subarray(from, from + MAX_WEIGHED_BYTES);
}

const ratesOf = (codec: SampleCodec) => (codec === 'pcmu' || codec === 'pcma' ? [8000] : RATES_HZ);

/** What a pace costs that is not the right one, by how sure one can be of it after so long. */
function mismatchBits(ratio: number, elapsedMs: number): number {
  const deviation = Math.log(ratio) / (CLOCK_ERROR + JITTER_MS / Math.max(1, elapsedMs));
  return Math.min(MAX_RATE_BITS, 0.72 * deviation * deviation);
}

/** Programs send round numbers: of milliseconds mostly, or of samples. Each other length of message is a surprise. */
function oddityBits(messages: Buffer[], frameBytes: number, rateHz: number): number {
  let bits = 0;
  for (const length of new Set(messages.map((message) => message.length))) {
    const samples = length / frameBytes;
    const isRound = (unitMs: number) => {
      const units = (samples * 1000) / rateHz / unitMs;
      return units > 0.5 && (Math.abs(units - Math.round(units)) * unitMs * rateHz) / 1000 < 1.01;
    };
    if (!Number.isInteger(samples)) bits += 12;
    else if (isRound(10)) bits += 0;
    else if (isRound(5)) bits += 2;
    else if (samples % 128 === 0) bits += rateHz >= 44_100 ? 2 : 3;
    else bits += isRound(2.5) ? 4 : 10;
  }
  // Beyond a few lengths the sender cuts anywhere, and lengths tell nothing.
  return Math.min(bits, 24);
}

/** Digital silence says little more than which law it is; of the rest the most usual is the best guess. */
function readSilence(messages: Buffer[]): Reading[] {
  const byte = messages[0]?.[0];
  if (byte === 0xff || byte === 0x7f) return [{ codec: 'pcmu', channels: 1, bitsPerByte: 0 }];
  if (byte === 0xd5 || byte === 0x55) return [{ codec: 'pcma', channels: 1, bitsPerByte: 0 }];
  return [{ codec: 'pcm_s16le', channels: 1, bitsPerByte: 0 }];
}
