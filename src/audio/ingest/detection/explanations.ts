import {
  type AudioFormat,
  formatAudioFormat,
  type InputFormat,
  type OpaqueFormat,
  type SampleCodec,
} from '../../format.ts';
import { SAMPLES_PER_MS } from '../../../rtp/clock-rate.ts';
import { isOpusSilence, opusPacketSamples } from '../../opus-packet.ts';
import { frameBytesOf } from '../../samples.ts';
import type { Content } from './content.ts';
import { isDecoded, type Hypothesis } from './description-length.ts';
import { doubtsOf, NO_DOUBTS } from './opus-doubts.ts';
import { elapsedMsOf, type Pace, type TimedMessage } from './pace.ts';
import { isDigitalSilence, SILENT_BYTES } from './silence.ts';

/** Detected format; `confidence`, 0…1, is derived from the distance to the next best explanation. */
export type Detection = { format: InputFormat; confidence: number };

/** Evidence that the formats have to explain. */
export type Evidence = {
  arrivals: TimedMessage[];
  /** Two or more of the last messages, whose times must be explained, too. */
  paced: TimedMessage[];
  /** Pace of the sender, as far as it is known. */
  pace: Pace;
  /** Received bytes, from the first sound on. */
  content: Content;
};

/** Minimum rate of a format of samples, bytes per second. Opus seldom takes more. */
const LEAST_SAMPLE_BYTES_PER_S = 6500;

const RATES_HZ = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
/** Maximum error of a sender's clock, as a share. */
const CLOCK_ERROR = 0.01;
/** Share of the bits saved by a hypothesis that counts as evidence: samples depend on each other more than the model assumes. */
const EVIDENCE_PER_BIT = 0.1;
/** Cost of another number of channels than the samples suggest. */
const OTHER_CHANNELS_BITS = 30;
/** Cost of the pace and of the lengths from which another number of channels is considered. */
const LEAST_OTHER_CHANNELS_BITS = 10;
/** Maximum cost of a mismatch of rates. */
const MAX_RATE_BITS = 300;
/** Cost of the first byte of a message that resembles an Opus packet by chance: 8 bits, less the excluded values. */
const RANDOM_HEAD_BITS = 7;
/** Minimum number of bytes before a stream that could be Opus is declared unknown. */
const LEAST_UNKNOWN_BYTES = 64;
/** Cost of an Opus packet that begins as the one before it. */
const SAME_HEAD_BITS = 0.5;
/** Cost of an Opus packet that begins as an earlier one. */
const CHANGED_HEAD_BITS = 3;
/** Cost of an Opus packet that begins as none before. */
const NEW_HEAD_BITS = 9;
/** Number of consecutive packets that random bytes seldom resemble. */
const LEAST_SEEMING_PACKETS = 8;
/** Minimum ratio of the time until the next packet to the duration of a packet from which there is a gap between them. */
const LEAST_GAP = 1.5;
/** Minimum ratio of the time of all packets to the duration that they claim from which they are of another protocol. */
const LEAST_OTHER_PACE = 1.8;
/** Codecs that most clients send. */
const FAMILIAR: ReadonlySet<string> = new Set(['opus', 'pcm_s16le', 'pcm_f32le', 'pcmu', 'pcma']);
/** Cost of any other format. */
const RARE_BITS = 10;
/** Cost of any other format if the bytes are repetitions, which say little. */
const HARDLY_TOLD_BITS = 60;

/** Cost of a pace beyond which the deviation exceeds jitter: a better explanation may be found soon. */
const DOUBTFUL_PACE_BITS = 6;

type Explanation = { format: AudioFormat | OpaqueFormat; bits: number; rateBits?: number };

/** Returns the format that explains the messages best; undefined if none does. */
export function weigh(evidence: Evidence): Detection | undefined {
  const { arrivals, paced, pace, content } = evidence;
  const { sound, novelShare, isNovel } = content;
  const headBits = opusHeadBits(arrivals);
  const resembleOpus = headBits !== undefined;
  const doubts = resembleOpus ? doubtsOf(arrivals) : NO_DOUBTS;
  if (doubts.isForeign) return { format: { codec: 'opaque' }, confidence: 1 };
  // If the durations that first bytes claim contradict the pace of all messages, the protocol is
  // another, or a slow machine encodes.
  const isSlow =
    paced.length >= LEAST_SEEMING_PACKETS &&
    isSlowThroughout(paced) &&
    elapsedMsOf(paced) >= LEAST_OTHER_PACE * claimedMsOf(paced);
  const mayBeOpus = !doubts.isSealed && !isSlow;
  const opusBits = resembleOpus && mayBeOpus ? explainAsOpus(evidence, headBits) : undefined;
  const isTooSlow = pace.bytesPerMs * 1000 < LEAST_SAMPLE_BYTES_PER_S;
  // Packets without sound (DTX) are so short that only their heads distinguish them.
  const isTelling = sound.length * novelShare >= LEAST_UNKNOWN_BYTES;
  const explanations: Explanation[] = [];
  if (opusBits !== undefined) explanations.push({ format: { codec: 'opus' }, bits: opusBits });
  if (opusBits === undefined || !isTooSlow) {
    // The bytes of Opus, or of what resembles it, cost 8 bits each: a hypothesis that explains
    // nothing might cost less.
    const mostBits = resembleOpus && isTelling && isNovel ? content.unexplainedBits : Infinity;
    explanations.push(...explainAsSamples(evidence, mostBits, headBits));
  }
  if (sound.length > 0 && (opusBits === undefined || isTelling)) {
    const bits = unexplainedBits(evidence, headBits, mayBeOpus);
    explanations.push({ format: { codec: 'opaque' }, bits });
  }
  for (const explanation of explanations) {
    if (FAMILIAR.has(explanation.format.codec)) continue;
    explanation.bits += isNovel ? RARE_BITS : HARDLY_TOLD_BITS;
  }
  explanations.sort((a, b) => a.bits - b.bits);
  const [best] = explanations;
  if (!best) return undefined;
  const name = formatAudioFormat(best.format);
  const second = explanations.find(({ format }) => formatAudioFormat(format) !== name);
  const marginBits = second ? second.bits - best.bits : Infinity;
  const isHasty =
    (best.rateBits ?? 0) > DOUBTFUL_PACE_BITS ||
    (best.format.codec === 'opus' && doubts.areOpen) ||
    (best.format.codec === 'opaque' &&
      opusBits !== undefined &&
      arrivals.length < LEAST_SEEMING_PACKETS);
  return { format: best.format, confidence: isHasty ? 0 : 1 / (1 + 2 ** -marginBits) };
}

/**
 * Returns the cost of bytes that no format explains: 8 bits each, and the cost of the chance that messages begin as Opus packets do.
 * @param mayBeOpus false if the pace or the content of the messages shows that they are no Opus packets
 */
function unexplainedBits(
  { arrivals, content }: Evidence,
  headBits: number | undefined,
  mayBeOpus: boolean,
): number {
  const { sound, novelShare } = content;
  if (headBits === undefined) {
    return EVIDENCE_PER_BIT * content.unexplainedBits * sound.length * novelShare;
  }
  const bytes = arrivals.reduce((total, { message }) => total + message.length, 0);
  return (
    EVIDENCE_PER_BIT * 8 * bytes * novelShare + (mayBeOpus ? chanceBits(arrivals, headBits) : 0)
  );
}

/** Returns the cost of messages that begin as packets of Opus do but are not; 0 if they begin otherwise. */
function chanceBits(arrivals: TimedMessage[], headBits: number | undefined): number {
  return headBits === undefined ? 0 : Math.max(0, RANDOM_HEAD_BITS * arrivals.length - headBits);
}

/**
 * Returns the cost of the first bytes as those of Opus packets; undefined if a message is no Opus packet, such as digital silence among
 * other messages.
 */
function opusHeadBits(arrivals: TimedMessage[]): number | undefined {
  const silent = arrivals.filter(({ message }) => isDigitalSilence(message)).length;
  if (silent > 0 && silent < arrivals.length) return undefined;
  let bits = 0;
  const seen = new Set<number>();
  let configurationBefore: number | undefined;
  for (const { message } of arrivals) {
    if (opusPacketSamples(message) === undefined) return undefined;
    const configuration = message[0]! >> 2;
    if (configuration === configurationBefore) bits += SAME_HEAD_BITS;
    else bits += seen.has(configuration) ? CHANGED_HEAD_BITS : NEW_HEAD_BITS;
    seen.add(configuration);
    configurationBefore = configuration;
  }
  return bits;
}

/** True if there is a gap after every packet, and sound in all of them. */
const isSlowThroughout = (paced: TimedMessage[]): boolean =>
  paced.every(({ message, atMs }, i) => {
    const nextMs = paced[i + 1]?.atMs ?? Infinity;
    const claimedMs = (opusPacketSamples(message) ?? 0) / SAMPLES_PER_MS;
    return !isOpusSilence(message) && nextMs - atMs > claimedMs * LEAST_GAP;
  });

/** Returns the duration that the heads of Opus packets claim, without that of the last packet, ms. */
const claimedMsOf = (paced: TimedMessage[]): number =>
  paced
    .slice(0, -1)
    .reduce((total, { message }) => total + (opusPacketSamples(message) ?? 0) / SAMPLES_PER_MS, 0);

/** Returns the cost of Opus. Its bytes cannot be compressed further, so they cost 8 bits each, but first bytes repeat, and durations match the pace. */
function explainAsOpus({ arrivals, paced, pace, content }: Evidence, headBits: number): number {
  const bits = arrivals.reduce(
    (total, { message }) =>
      total + EVIDENCE_PER_BIT * 8 * (message.length - 1) * content.novelShare,
    headBits,
  );
  const elapsedMs = elapsedMsOf(paced);
  const ahead = (claimedMsOf(paced) + 1) / (elapsedMs + 1);
  // Pauses make parts of a stream slower than real time; nothing makes it much faster.
  const mostBits = ahead > 1 ? 100 : isSlowThroughout(paced) ? 40 : 10;
  return bits + Math.min(mostBits, mismatchBits(ahead, pace));
}

/**
 * Returns the explanations of the messages as samples.
 * @param mostBits bits a byte from which a hypothesis is no explanation
 * @param headBits cost of the first bytes as those of Opus packets
 */
function explainAsSamples(
  { arrivals, pace, content }: Evidence,
  mostBits: number,
  headBits: number | undefined,
): Explanation[] {
  const { sound, novelShare, isNovel } = content;
  const messages = arrivals.map(({ message }) => message);
  const hypotheses = sound.length > 0 ? content.hypotheses : readSilence(messages);
  const explaining = hypotheses.filter(({ bitsPerByte }) => bitsPerByte < mostBits);
  const { bytesPerMs } = pace;
  const soundBits = (bitsPerByte: number) =>
    EVIDENCE_PER_BIT * bitsPerByte * sound.length * novelShare;
  const explain = (codec: SampleCodec, channels: number, bitsPerByte: number): Explanation[] =>
    ratesOf(codec).map((rateHz) => {
      const frameBytes = frameBytesOf({ codec, channels });
      const expectedBytesPerMs = (rateHz * frameBytes) / 1000;
      const rateBits = mismatchBits(bytesPerMs / expectedBytesPerMs, pace);
      return {
        format: { codec, rateHz, channels },
        bits: soundBits(bitsPerByte) + rateBits + lengthPenaltyBits(messages, frameBytes, rateHz),
        rateBits,
      };
    });
  return explaining.flatMap(({ codec, channels, bitsPerByte, otherwise }): Explanation[] => {
    if (!isDecoded(codec)) {
      return [
        {
          format: { codec: 'opaque' },
          bits: soundBits(bitsPerByte) + chanceBits(arrivals, headBits),
        },
      ];
    }
    const explained = explain(codec, channels, bitsPerByte);
    const isInTime = ({ bits }: Explanation) =>
      bits - soundBits(bitsPerByte) < LEAST_OTHER_CHANNELS_BITS;
    if (!otherwise || !isNovel || explained.some(isInTime)) return explained;
    const other = otherwise();
    const others = explain(codec, other.channels, other.bitsPerByte);
    return [
      ...explained,
      ...others.map((explanation) => ({
        ...explanation,
        bits: explanation.bits + OTHER_CHANNELS_BITS,
      })),
    ];
  });
}

/** Returns the possible sample rates of a codec, Hz. */
export function ratesOf(codec: SampleCodec): number[] {
  if (codec === 'g722') return [16_000];
  return codec === 'pcmu' || codec === 'pcma' ? [8000] : RATES_HZ;
}

/** Returns the cost of a pace that differs from the expected one, which is higher the better the pace is known. */
function mismatchBits(ratio: number, { elapsedMs, jitterMs }: Omit<Pace, 'bytesPerMs'>): number {
  const deviation = Math.log(ratio) / (CLOCK_ERROR + jitterMs / Math.max(1, elapsedMs));
  return Math.min(MAX_RATE_BITS, 0.72 * deviation * deviation);
}

/** Returns the cost of message lengths: programs mostly send round numbers of milliseconds, or of samples; other lengths are unlikely. */
function lengthPenaltyBits(messages: Buffer[], frameBytes: number, rateHz: number): number {
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
  // A sender of many lengths cuts its stream anywhere: lengths then say nothing.
  return Math.min(bits, 24);
}

/** Returns the hypothesis for digital silence. Its bytes distinguish the laws of G.711; the best guess of all others is the most usual format. */
function readSilence(messages: Buffer[]): (Omit<Hypothesis, 'codec'> & { codec: SampleCodec })[] {
  const codec = SILENT_BYTES.get(messages[0]?.[0] ?? 0) ?? 'pcm_s16le';
  return [{ codec, channels: 1, bitsPerByte: 0 }];
}
