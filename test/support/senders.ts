import { Application, type EncoderOptions } from 'libopus-wasm';
import type { Codecs } from '../../src/audio/codecs.ts';
import {
  type AudioFormat,
  isSamples,
  SAMPLE_RATE_HZ,
  type SampleFormat,
} from '../../src/audio/format.ts';
import { createIngest } from '../../src/audio/ingest/create-ingest.ts';
import { SoundBudget } from '../../src/audio/ingest/sound-budget.ts';
import { Pacer } from '../../src/rtp/pacer.ts';
import { Packetizer } from '../../src/rtp/packetizer.ts';
import {
  COMPRESSED_FILES,
  compress,
  type CompressedFile,
  decodeHere,
  type TimedMessage,
} from './compressed-files.ts';
import { oggOpus, webmOpus } from './containers.ts';
import { findWord } from './heard-words.ts';
import { type Arrival, joinAll } from './simulated-room.ts';
import { encodeOpus, sampleMessages } from './sound.ts';
import type { Track } from './speech.ts';
import { wavFile } from './wav.ts';

/** Encoding of a client's audio: samples, or Opus of some kind. */
export type Sender = {
  name: string;
  format: AudioFormat;
  /** Container around the format; each message is one page, cluster, or piece of a file. */
  container?: 'wav' | 'ogg_opus' | 'webm_opus';
  /** File that ffmpeg makes of the samples. */
  file?: CompressedFile;
  packetMs?: number;
  opus?: EncoderOptions;
  /** Lag of the decoded audio behind the encoded audio, samples; that of a file is found by its first word. */
  delaySamples: number;
  /** Band that the format can carry, if not all that is heard of speech. */
  highestHz?: number;
};

const SPEECH_DELAY_SAMPLES = 312;
const CELT_DELAY_SAMPLES = 120;

const PCM: SampleFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const OPUS: AudioFormat = { codec: 'opus' };

const speechOpus: EncoderOptions = {
  application: Application.Voip,
  bitrate: 32_000,
  complexity: 9,
  fec: true,
  packetLossPercent: 5,
};
const celtOpus: EncoderOptions = { application: Application.RestrictedLowDelay, bitrate: 64_000 };

/** The senders of issue 19. */
export const SENDERS: Record<'pcm' | 'browser' | 'celt' | 'long' | 'dtx', Sender> = {
  pcm: { name: 'PCM 48 kHz', format: PCM, delaySamples: CELT_DELAY_SAMPLES },
  browser: {
    name: 'Opus as browsers send it (32 kb/s, FEC)',
    format: OPUS,
    opus: speechOpus,
    delaySamples: SPEECH_DELAY_SAMPLES,
  },
  celt: {
    name: 'Opus 64 kb/s (CELT)',
    format: OPUS,
    opus: celtOpus,
    delaySamples: CELT_DELAY_SAMPLES,
  },
  long: {
    name: 'Opus, packets of 60 ms',
    format: OPUS,
    packetMs: 60,
    opus: { ...speechOpus, bitrate: 24_000 },
    delaySamples: SPEECH_DELAY_SAMPLES,
  },
  dtx: {
    name: 'Opus 24 kb/s with DTX',
    format: OPUS,
    opus: { ...speechOpus, bitrate: 24_000, dtx: true },
    delaySamples: SPEECH_DELAY_SAMPLES,
  },
};

/** Packets of other lengths, and messages of samples that are as long, ms. */
const PACKETS_MS = [2.5, 5, 10, 40, 80, 100, 120];
/** Messages of samples that last no multiple of 20 ms; 4096 samples are those of a ScriptProcessor. */
export const ODD_MESSAGES_MS = [50, 70, 4096 / 48, 90, 110];

const inPackets = (sender: Sender, packetMs: number): Sender => ({
  ...sender,
  name: `${sender.name}, ${Number(packetMs.toFixed(1))} ms`,
  packetMs,
});

/** The senders of issue 19, in packets or messages of every length that their formats allow and that they do not have themselves. */
export const SENDERS_BY_LENGTH: Sender[] = [
  ...[SENDERS.pcm, SENDERS.browser, SENDERS.celt].flatMap((sender) =>
    // The mode of Opus that has a model of speech has no packets of less than 10 ms.
    PACKETS_MS.filter((packetMs) => sender !== SENDERS.browser || packetMs >= 10).map((packetMs) =>
      inPackets(sender, packetMs),
    ),
  ),
  ...[60, ...ODD_MESSAGES_MS].map((packetMs) => inPackets(SENDERS.pcm, packetMs)),
  inPackets(SENDERS.celt, 60),
];

const samples = (name: string, codec: SampleFormat['codec'], rateHz: number): Sender => ({
  name,
  format: { codec, rateHz, channels: 1 },
  delaySamples: CELT_DELAY_SAMPLES,
  // Filters between the rates take away what is close to half a rate.
  highestHz: Math.min(8000, Math.floor((rateHz * 0.42) / 100) * 100),
});

/** Senders of further formats of samples. */
export const SENDERS_OF_SAMPLES: Sender[] = [
  samples('PCM 44.1 kHz', 'pcm_s16le', 44_100),
  samples('float PCM 16 kHz', 'pcm_f32le', 16_000),
  samples('PCM 8 kHz', 'pcm_s16le', 8000),
  samples('G.711 µ-law', 'pcmu', 8000),
  samples('G.711 A-law', 'pcma', 8000),
  samples('G.722', 'g722', 16_000),
  samples('PCM of 16 bits, big-endian', 'pcm_s16be', 48_000),
  samples('PCM of 8 bits', 'pcm_u8', 48_000),
  samples('PCM of 24 bits', 'pcm_s24le', 48_000),
  samples('PCM of 32 bits', 'pcm_s32le', 48_000),
];

/** Senders of files without an end, and of containers. */
export const SENDERS_IN_CONTAINERS: Sender[] = [
  { ...SENDERS.pcm, name: 'WAV', container: 'wav' },
  { ...SENDERS.browser, name: 'Ogg Opus', container: 'ogg_opus' },
  { ...SENDERS.browser, name: 'WebM Opus', container: 'webm_opus' },
];

const inFile = (name: string, file: CompressedFile): Sender => ({
  ...SENDERS.pcm,
  name,
  file,
  delaySamples: 0,
});

/** Senders of compressed files. */
export const SENDERS_OF_FILES: Sender[] = [
  inFile('MP3', COMPRESSED_FILES.mp3),
  inFile('AAC in ADTS', COMPRESSED_FILES.aac),
  inFile('AAC in MP4', COMPRESSED_FILES.mp4),
  inFile('FLAC', COMPRESSED_FILES.flac),
  inFile('Ogg FLAC', COMPRESSED_FILES.oggFlac),
  inFile('Ogg Vorbis', COMPRESSED_FILES.vorbis),
];

/** Messages that a client sends of a sound at 48 kHz: its binary messages, one for each packet's time. */
export async function messagesOf(
  codecs: Codecs,
  sender: Sender,
  sound: Float32Array,
): Promise<Buffer[]> {
  const { container, format, packetMs = 20 } = sender;
  const messages = await bareMessagesOf(codecs, sender, sound);
  if (container === 'ogg_opus') return oggOpus(messages, packetMs, { packetsPerPage: 1 });
  if (container === 'webm_opus') return webmOpus(messages, packetMs, { packetsPerCluster: 1 });
  if (container === 'wav' && isSamples(format)) {
    const [first, ...others] = messages;
    return [wavFile(format, first!, ENDLESS_BYTES), ...others];
  }
  return messages;
}

async function bareMessagesOf(
  codecs: Codecs,
  { format, packetMs = 20, opus }: Sender,
  sound: Float32Array,
): Promise<Buffer[]> {
  if (format.codec === 'opus') return encodeOpus(sound, packetMs, opus);
  const { rateHz } = format;
  if (rateHz === SAMPLE_RATE_HZ) return sampleMessages(format, sound, packetMs);
  const resampler = codecs.openResampler(SAMPLE_RATE_HZ, rateHz);
  const resampled = resampler.process(sound);
  resampler.close();
  return sampleMessages(format, resampled, packetMs);
}

/** Length that the head of a file states which has no end. */
const ENDLESS_BYTES = 0xffff_ffff;

const TICK_MS = 20;
/** Level at which a packet counts as silence that nobody misses, −dBov. */
const QUIET_LEVEL = 55;

type PacedPacket = {
  payload: Buffer;
  durationSamples: number;
  durationMs: number;
  audioLevel: number;
  isQuiet: boolean;
  isSpare: boolean;
  gapMs: number;
};

/** Messages of a sound, each at its time. */
async function timedMessagesOf(
  codecs: Codecs,
  sender: Sender,
  sound: Float32Array,
): Promise<TimedMessage[]> {
  if (sender.file) return compress(sender.file, sound);
  const { packetMs = 20 } = sender;
  const messages = await messagesOf(codecs, sender, sound);
  return messages.map((message, i) => ({ message, atMs: i * packetMs }));
}

/** The packets of a sound as the gateway's ingest makes and measures them, from `fromMs` on, and as its pacer lets them out. */
async function arrivalsOf(
  codecs: Codecs,
  peer: string,
  sender: Sender,
  sound: Float32Array,
  fromMs = 0,
): Promise<Arrival[]> {
  const arrivals: Arrival[] = [];
  const packetizer = new Packetizer({ sequenceNumber: 1, timestamp: 0 });
  const pacer = new Pacer<PacedPacket>();
  const takeDue = (nowMs: number) => {
    for (let due = pacer.take(nowMs); due; due = pacer.take(nowMs)) {
      const { payload, durationSamples, audioLevel, gapMs } = due;
      const gapSamples = Math.round(gapMs * 48);
      const packet = packetizer.packetize(payload, durationSamples, audioLevel, gapSamples);
      arrivals.push({ peer, packet, atMs: nowMs });
    }
  };
  const inside = sender.container ?? sender.file?.codec;
  const here = decodeHere(codecs);
  const ingest = await createIngest(
    inside ? { codec: inside } : sender.format,
    here.codecs,
    {
      sound: new SoundBudget(),
      sink: (payload, durationSamples, audioLevel, atMs) => {
        const isQuiet = audioLevel >= QUIET_LEVEL;
        const durationMs = durationSamples / 48;
        const paced = {
          payload,
          durationSamples,
          durationMs,
          audioLevel,
          isQuiet,
          isSpare: false,
          gapMs: 0,
        };
        pacer.push(paced, atMs);
        takeDue(atMs);
      },
    },
    {
      onFault: (fault) => {
        throw fault;
      },
      onInside: () => {},
    },
  );
  let tickMs = fromMs + TICK_MS / 4;
  const tickUntil = (atMs: number) => {
    for (; tickMs < atMs; tickMs += TICK_MS) takeDue(tickMs);
  };
  for (const [i, { message, atMs }] of (await timedMessagesOf(codecs, sender, sound)).entries()) {
    tickUntil(fromMs + atMs);
    ingest.push(message, fromMs + atMs);
    // The format of a file is opened once its head has come.
    if (sender.file || (i === 0 && sender.container)) await here.settle();
  }
  while (pacer.bufferedMs > 0) tickUntil(tickMs + TICK_MS);
  ingest.close();
  return arrivals;
}

/** The sender's own stream, decoded whole: what everybody should hear. */
export async function decodeWhole(codecs: Codecs, packets: Buffer[]): Promise<Float32Array> {
  const decoder = await codecs.opus.createDecoder();
  const parts = packets.map((packet) => decoder.decode(packet).slice());
  decoder.close();
  return joinAll(parts);
}

/** Speaker of a track, as the gateway takes it in, and as it is to be heard. */
export async function sayTrack(
  codecs: Codecs,
  peer: string,
  sender: Sender,
  { sound, words }: Track,
  fromMs = 0,
) {
  const arrivals = await arrivalsOf(codecs, peer, sender, sound, fromMs);
  const reference = await decodeWhole(
    codecs,
    arrivals.map(({ packet }) => packet.payload),
  );
  const later = sender.file ? findDelay(sound, reference, words) : sender.delaySamples;
  const places = words.map((word) => ({ ...word, fromSample: word.fromSample + later }));
  return { arrivals, reference, words: places };
}

/** Returns how much later the first word is than it was said, samples. */
function findDelay(sound: Float32Array, reference: Float32Array, words: Track['words']): number {
  const delay = words[0] && findWord(sound, reference, words[0]);
  if (delay === undefined) throw new Error('the first word is not heard');
  return delay;
}
