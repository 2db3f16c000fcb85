import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { seededRandom } from './random.ts';

/** Speech to send: words spoken by espeak-ng, brought to 48 kHz by sox, between pauses with the noise of a room. */

const run = promisify(execFile);
const SAMPLES_PER_MS = 48;
/** espeak-ng says nothing at the beginning and the end of what it writes. */
const SILENCE = 0.002;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

const WORDS = (
  'seven paper winter table garden monday basket dinner kitchen yellow happy summer doctor pocket ' +
  'coffee button market river better tiger people music number candle silver water sugar village ' +
  'forest letter zebra shadow planet butter chicken father hotel jacket lemon mirror'
).split(' ');

/** Position of a word in a {@link Track}. */
export type Word = { fromSample: number; samples: number };

/** Sound at 48 kHz, -1…1, and the words in it. */
export type Track = { sound: Float32Array; words: Word[] };

export type TrackOptions = {
  /** Number of words, up to 40 different ones. */
  words?: number;
  /** A voice of espeak-ng. */
  voice?: string;
  /** Before each word, and after the last. */
  pauseMs?: number;
  /** Level of each word, in dBov. */
  levelDb?: number;
  /** Noise of the room from the beginning to the end, in dBov. */
  noiseDb?: number;
  seed?: number;
};

const spokenBefore = new Map<string, Promise<Float32Array>>();

/** One utterance, without the silence around it; the same array each time. */
function speak(text: string, voice: string): Promise<Float32Array> {
  const key = `${voice} ${text}`;
  const spoken = spokenBefore.get(key) ?? synthesize(text, voice);
  spokenBefore.set(key, spoken);
  return spoken;
}

async function synthesize(text: string, voice: string): Promise<Float32Array> {
  const command =
    'espeak-ng -v "$0" -s 150 --stdout "$1" | sox -t wav - -t f32 -r 48000 -c 1 - 2>/dev/null';
  const { stdout } = await run('sh', ['-c', command, voice, text], {
    encoding: 'buffer',
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  const sound = readFloats(stdout);
  const first = sound.findIndex((sample) => Math.abs(sample) > SILENCE);
  const last = sound.findLastIndex((sample) => Math.abs(sample) > SILENCE);
  if (first === -1) throw new Error(`espeak-ng said nothing for "${text}".`);
  return sound.slice(first, last + 1);
}

/** Words with pauses in between, in the noise of a room. */
export async function spokenTrack({
  words = 40,
  voice = 'en-us',
  pauseMs = 1300,
  levelDb = -26,
  noiseDb = -72,
  seed = 1,
}: TrackOptions = {}): Promise<Track> {
  const spoken = await Promise.all(WORDS.slice(0, words).map((word) => speak(word, voice)));
  const pauseSamples = pauseMs * SAMPLES_PER_MS;
  const length = spoken.reduce((sum, { length: samples }) => sum + samples + pauseSamples, 0);
  const sound = noise(noiseDb, (length + pauseSamples) / SAMPLES_PER_MS, seed);
  const random = seededRandom(seed + 1);
  const track: Track = { sound, words: [] };
  let at = 0;
  for (const word of spoken) {
    // Words begin at another phase of a packet each.
    const fromSample = at + pauseSamples - Math.floor(random() * 20 * SAMPLES_PER_MS);
    const gain = 10 ** (levelDb / 20) / rmsOf(word);
    for (const [i, sample] of word.entries()) sound[fromSample + i]! += gain * sample;
    track.words.push({ fromSample, samples: word.length });
    at = fromSample + word.length;
  }
  return track;
}

/** Chords of music, in notes of sox: a bass, and strings that are plucked one after another. */
const CHORDS = [
  ['C2', 'C4', 'E4', 'G4', 'C5'],
  ['A2', 'A3', 'C4', 'E4', 'A4'],
  ['F2', 'F3', 'C4', 'F4', 'A4'],
  ['G2', 'G3', 'B3', 'D4', 'F4'],
];
const CHORD_S = 1.2;
const STRUM_S = 0.15;

/** Music without a pause, made by sox. Each chord stands in place of a word. */
export async function musicTrack({ chords = 8, levelDb = -26 } = {}): Promise<Track> {
  const played = await Promise.all(CHORDS.map(playChord));
  const music = Array.from({ length: chords }, (_, i) => played[i % played.length]!);
  const { length: samples } = played[0]!;
  const sound = new Float32Array(chords * samples);
  for (const [i, chord] of music.entries()) sound.set(chord, i * samples);
  const gain = 10 ** (levelDb / 20) / rmsOf(sound);
  const words = music.map((_, i) => ({ fromSample: i * samples, samples }));
  return { sound: sound.map((sample) => sample * gain), words };
}

async function playChord([bass = '', ...notes]: string[]): Promise<Float32Array> {
  const strings = notes.flatMap((note) => ['pluck', note]);
  const delays = notes.map((_, i) => `${i * STRUM_S}`);
  const { stdout } = await run(
    'sox',
    [
      '-R',
      '-r',
      '48000',
      '-n',
      '-t',
      'f32',
      '-',
      'synth',
      `${CHORD_S}`,
      'triangle',
      bass,
      ...strings,
      'delay',
      '0',
      ...delays,
      'remix',
      '-',
      'fade',
      '0.01',
      `${CHORD_S}`,
      '0.02',
    ],
    { encoding: 'buffer', maxBuffer: MAX_OUTPUT_BYTES },
  );
  return readFloats(stdout);
}

function readFloats(bytes: Buffer): Float32Array {
  const floats = new Float32Array(bytes.length >> 2);
  for (let i = 0; i < floats.length; i += 1) floats[i] = bytes.readFloatLE(i * 4);
  return floats;
}

const HUM_HARMONICS = [1, 2, 3, 5, 8];

/** White noise of a level in dBov. */
export function noise(levelDb: number, durationMs: number, seed: number): Float32Array {
  const random = seededRandom(seed);
  // A uniform distribution from -1 to 1 has the power of a third.
  const amplitude = Math.sqrt(3) * 10 ** (levelDb / 20);
  const samples = new Float32Array(Math.round(durationMs * SAMPLES_PER_MS));
  for (let i = 0; i < samples.length; i += 1) samples[i] = amplitude * (2 * random() - 1);
  return samples;
}

/** Hum of the mains of a level in dBov: 50 Hz and harmonics of it. */
export function hum(levelDb: number, durationMs: number): Float32Array {
  const samples = new Float32Array(Math.round(durationMs * SAMPLES_PER_MS));
  for (let i = 0; i < samples.length; i += 1) {
    const phase = (2 * Math.PI * 50 * i) / (1000 * SAMPLES_PER_MS);
    for (const harmonic of HUM_HARMONICS) samples[i]! += Math.sin(harmonic * phase) / harmonic;
  }
  const gain = 10 ** (levelDb / 20) / rmsOf(samples);
  return samples.map((sample) => sample * gain);
}

export function rmsOf(sound: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < sound.length; i += 1) sum += sound[i]! ** 2;
  return Math.sqrt(sum / Math.max(1, sound.length));
}
