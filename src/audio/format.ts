import { PartylineError } from '../protocol/errors.ts';

/** Meaning of one binary message of a peer (docs/protocol.md, "Audio formats"). */
export type AudioFormat = { codec: 'opus' } | SampleFormat;

/** Interleaved samples, in messages of any length. */
export type SampleFormat = { codec: SampleCodec; rateHz: number; channels: number };

/** PCM codecs, without state between samples: at any rate, on one channel or two. */
const PCM_CODECS = [
  'pcm_s16le',
  'pcm_f32le',
  'pcm_s16be',
  'pcm_u8',
  'pcm_s24le',
  'pcm_s32le',
] as const;
type PcmCodec = (typeof PCM_CODECS)[number];

/** Telephone codecs: mono, at a rate of their own, Hz. */
const TELEPHONE_RATES_HZ = { pcmu: 8000, pcma: 8000, g722: 16_000 } as const;
/** Codecs of samples; 64-bit floats are read in files only. */
export type SampleCodec = PcmCodec | 'pcm_f64le' | keyof typeof TELEPHONE_RATES_HZ;

/** Opus in a container, cut into messages anywhere: only received from peers, never sent. */
export type ContainerFormat = { codec: Container };
export type Container = 'ogg_opus' | 'webm_opus';

/** A RIFF WAVE file; `inside` is the format in its header, once that has been read. */
type WavFormat = { codec: 'wav'; inside?: SampleFormat };

/** Compressed audio, decoded in the decoder thread. */
export type CompressedFormat = {
  codec: 'mp3' | 'flac' | 'ogg_flac' | 'ogg_vorbis' | 'aac_adts' | 'mp4_aac';
};

/** Bytes that only the app's own clients understand: neither decoded nor mixed. */
export type OpaqueFormat = { codec: 'opaque' };

/** Formats that a peer may send and the gateway decodes. */
export type KnownFormat = AudioFormat | ContainerFormat | CompressedFormat | WavFormat;

/** Formats that a peer may send. */
export type InputFormat = KnownFormat | OpaqueFormat;

/** Formats that a peer may ask to be sent. */
export type OutputFormat = AudioFormat | OpaqueFormat;

/** Format that a client declares; with `auto` it is detected. */
export type DeclaredFormat = InputFormat | 'auto';

/** Formats that are received from peers and never sent. */
const INPUT_ONLY = [
  'ogg_opus',
  'webm_opus',
  'wav',
  'mp3',
  'flac',
  'ogg_flac',
  'ogg_vorbis',
  'aac_adts',
  'mp4_aac',
] as const;

/** Parameters of a PCM codec, as docs/protocol.md writes them. */
const PCM_PARAMETERS = ';rate=R;channels=C';

/** Meaning of one binary message, by the codec of its format. */
const MEANINGS: Readonly<Record<Exclude<InputFormat['codec'], 'pcm_f64le'> | 'auto', string>> = {
  opus: 'one Opus packet (RFC 6716), any frame duration, mono or stereo',
  pcm_s16le:
    'interleaved samples of 16 bits, R in 8000…48000, C 1 or 2; any length, also one that splits a sample',
  pcm_f32le: 'as `pcm_s16le`, with 32-bit floats',
  pcm_s16be: 'as `pcm_s16le`, with 16 bits in network order',
  pcm_u8: 'as `pcm_s16le`, with unsigned 8 bits',
  pcm_s24le: 'as `pcm_s16le`, with 24 bits',
  pcm_s32le: 'as `pcm_s16le`, with 32-bit integers',
  pcmu: 'G.711 µ-law at 8000 Hz, any length',
  pcma: 'G.711 A-law at 8000 Hz, any length',
  g722: 'G.722 at 64 kbit/s: two samples of 16 kHz in a byte, any length',
  wav: 'a chunk of a RIFF WAVE stream, cut anywhere, or a whole file: samples of 8 to 32 bits, floats or G.711, 4000…192000 Hz, up to 8 channels',
  mp3: 'a chunk of MPEG audio, Layer II or III, cut anywhere, joined anywhere; tags are passed over',
  flac: 'a chunk of FLAC, cut anywhere, joined at any frame; a frame has at most 16384 samples',
  ogg_flac: 'a chunk of FLAC in Ogg, cut anywhere; a frame has at most 16384 samples',
  ogg_vorbis:
    'a chunk of Vorbis in Ogg, cut anywhere, from its first page on: 4000…192000 Hz, up to 8 channels',
  aac_adts:
    'a chunk of AAC in ADTS, cut anywhere, joined anywhere: the low complexity profile (of HE-AAC only the core is heard)',
  mp4_aac:
    "a chunk of fragmented MP4 with AAC as in `aac_adts`, cut anywhere (Safari's MediaRecorder)",
  ogg_opus: "a chunk of Opus in Ogg, cut anywhere (a browser's MediaRecorder)",
  webm_opus: "a chunk of Opus in WebM, cut anywhere (a browser's MediaRecorder)",
  opaque: "bytes that only the app's own clients understand; neither decoded nor mixed",
  auto: 'detected from the bytes and their rate; an operator who knows the format may pin it for the account',
};

/** Returns each value of `audio`, and the meaning of one binary message in that format, for docs/protocol.md. */
export const describeFormats = (): { value: string; meaning: string; isInputOnly: boolean }[] =>
  Object.entries(MEANINGS).map(([codec, meaning]) => ({
    value: PCM_CODECS.some((pcm) => pcm === codec) ? `${codec}${PCM_PARAMETERS}` : codec,
    meaning,
    isInputOnly: isInputOnly(codec),
  }));

/** Values of `audio_out`, in messages for people. */
const KNOWN_OUT = `auto, opus, ${Object.keys(TELEPHONE_RATES_HZ).join(', ')}, and with ${PCM_PARAMETERS} (R 8000…48000, C 1 or 2) ${PCM_CODECS.join(', ')}; opaque`;
/** Values of `audio`, in messages for people. */
const KNOWN_IN = `${KNOWN_OUT}, ${INPUT_ONLY.join(', ')}`;

/** Regular expression of the rates 8000…48000, Hz. */
const RATE_PATTERN = '(?:(?:[89]|[1-3]\\d|4[0-7])\\d{3}|48000)';
/**
 * Regular expression (without anchors) of the formats that the gateway encodes: the values of `audio_out` but
 * for `auto` and `opaque`.
 */
export const AUDIO_FORMAT_PATTERN = `opus|${Object.keys(TELEPHONE_RATES_HZ).join('|')}|(?:${PCM_CODECS.join('|')});rate=${RATE_PATTERN};channels=[12]`;
/** Regular expression (without anchors) of the formats in which a peer sends: the values of `audio` but for `auto`. */
export const INPUT_FORMAT_PATTERN = `${AUDIO_FORMAT_PATTERN}|${INPUT_ONLY.join('|')}|opaque`;

const AUDIO_FORMAT = new RegExp(`^(?:${AUDIO_FORMAT_PATTERN})$`);
const PCM = /^(pcm_\w+);rate=(\d+);channels=(\d)$/;

/**
 * Reads a format that the gateway encodes.
 * @throws {PartylineError} `unsupported_audio`
 */
export function parseAudioFormat(value: string): AudioFormat {
  if (!AUDIO_FORMAT.test(value)) throw unknownFormat('audio_out', KNOWN_OUT);
  if (value === 'opus') return { codec: 'opus' };
  if (isTelephone(value)) return { codec: value, rateHz: TELEPHONE_RATES_HZ[value], channels: 1 };
  const [, codec, rate, channels] = PCM.exec(value) ?? [];
  return { codec: codec as PcmCodec, rateHz: Number(rate), channels: Number(channels) };
}

/**
 * Reads the format that a peer asks to receive (`audio_out`).
 * @throws {PartylineError} `unsupported_audio`
 */
export function parseOutputFormat(value: string): OutputFormat {
  return value === 'opaque' ? { codec: value } : parseAudioFormat(value);
}

/**
 * Reads the format that a peer declares (`audio`).
 * @throws {PartylineError} `unsupported_audio`
 */
export function parseDeclaredFormat(value: string): DeclaredFormat {
  if (value === 'auto') return value;
  if (value === 'opaque') return { codec: value };
  if (isInputOnly(value)) return { codec: value };
  if (!AUDIO_FORMAT.test(value)) throw unknownFormat('audio', KNOWN_IN);
  return parseAudioFormat(value);
}

/** True for formats that are read and never written: files and containers. */
export const isInputOnly = (codec: string): codec is (typeof INPUT_ONLY)[number] =>
  INPUT_ONLY.some((known) => known === codec);

const unknownFormat = (name: string, known: string) =>
  new PartylineError('unsupported_audio', `${name}: Unknown audio format; known are ${known}.`);

/** Returns the text of a format: the inverse of {@link parseDeclaredFormat}. */
export function formatAudioFormat(format: DeclaredFormat): string {
  if (format === 'auto') return format;
  return 'rateHz' in format && !isTelephone(format.codec)
    ? `${format.codec};rate=${format.rateHz};channels=${format.channels}`
    : format.codec;
}

const isTelephone = (codec: string): codec is keyof typeof TELEPHONE_RATES_HZ =>
  Object.hasOwn(TELEPHONE_RATES_HZ, codec);

/** Returns the format in which a peer that sends this one hears by default; undefined for the default format of its account. */
export function answerTo(format: InputFormat): OutputFormat | undefined {
  if (isContainer(format)) return { codec: 'opus' };
  if (format.codec === 'wav') return isHeard(format.inside) ? format.inside : undefined;
  return isCompressed(format) ? undefined : format;
}

/** True for rates and channel counts that can be sent; files may hold others. */
function isHeard(inside: SampleFormat | undefined): boolean {
  if (!inside || !AUDIO_FORMAT.test(formatAudioFormat(inside))) return false;
  const { codec, rateHz, channels } = inside;
  return !isTelephone(codec) || (rateHz === TELEPHONE_RATES_HZ[codec] && channels === 1);
}

/** True for formats in which packets of Opus are wrapped. */
export function isContainer(format: InputFormat): format is ContainerFormat {
  return format.codec === 'ogg_opus' || format.codec === 'webm_opus';
}

export const isCompressed = (format: InputFormat): format is CompressedFormat =>
  isInputOnly(format.codec) && !isContainer(format) && format.codec !== 'wav';

/** True for formats without frames: samples of one rate, one after another. */
export function isSamples(format: InputFormat): format is SampleFormat {
  return 'rateHz' in format;
}

/** True for formats that can be read from the middle of a stream, where a resumed client may continue. */
export const canBeginAnywhere = (format: InputFormat): boolean =>
  format.codec === 'opus' || format.codec === 'opaque' || isSamples(format);

const CONTAINER_MAGIC: [Container, Buffer][] = [
  ['ogg_opus', Buffer.from('OggS')],
  ['webm_opus', Buffer.from([0x1a, 0x45, 0xdf, 0xa3])],
];

/** Returns the container of a stream, by its first bytes (RFC 3533 §6, RFC 8794 §11.2.1). */
export function containerOf(start: Buffer): Container | undefined {
  return CONTAINER_MAGIC.find(([, magic]) => start.subarray(0, 4).equals(magic))?.[0];
}

/** Delivery to a peer: one stream with all other speakers, or each speaker's own packets. */
export type Delivery = 'mix' | 'forward';

/** Sample rate and frame length of the gateway's mixes: 20 ms at the native rate of Opus. */
export const SAMPLE_RATE_HZ = 48_000;
export const FRAME_MS = 20;
export const FRAME_SAMPLES = 960;
