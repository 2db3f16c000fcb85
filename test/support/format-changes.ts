import type { Codecs } from '../../src/audio/codecs.ts';
import { formatAudioFormat, type SampleFormat } from '../../src/audio/format.ts';
import type { TimedMessage } from '../../src/audio/ingest/detection/pace.ts';
import { AudioInput } from '../../src/audio/ingest/input.ts';
import { frameBytesOf, openSampleWriter } from '../../src/audio/samples.ts';
import { SoundBudget } from '../../src/audio/ingest/sound-budget.ts';
import { RATES_HZ, soundOf, stereoOf } from './corpus.ts';
import { type Random, seededRandom } from './random.ts';

/** Undeclared streams of samples whose rate changes in the middle, and the networks over which they come. */

export const NETWORKS = ['steady', 'jitter', 'stall'] as const;
export type Network = (typeof NETWORKS)[number];
const CHANGE_LENGTHS_MS = [10, 20, 40, 60, 100, 200];
/** `ms`: messages last as long after the change as before it; `bytes`: they have as many bytes, so that the pace alone tells. */
const KEPT = ['ms', 'bytes'] as const;

export type RateChange = {
  fromHz: number;
  toHz: number;
  kept: (typeof KEPT)[number];
  /** Duration of a message after the change. */
  messageMs: number;
  network: Network;
  seed: number;
};

const JITTER_MS = 20;
const STALL_MS = 500;
/** Times before and after the change between which a stall begins. */
const STALL_FROM_MS = -500;
const STALL_TO_MS = 900;
/** A device that is changed leaves a gap of this length at most. */
const MOST_GAP_MS = 100;

/** A message, when it was recorded, and when it arrived. */
type SentMessage = TimedMessage & { sentMs: number };

export const nameOfChange = ({ fromHz, toHz, kept, messageMs, network, seed }: RateChange) =>
  `${fromHz} → ${toHz} Hz, same ${kept}, ${messageMs} ms, ${network}, seed ${seed}`;

export function* rateChanges(seeds: number): Generator<RateChange> {
  for (const fromHz of RATES_HZ) {
    for (const toHz of RATES_HZ.filter((hz) => hz !== fromHz)) {
      for (const kept of KEPT) {
        for (const messageMs of CHANGE_LENGTHS_MS) {
          for (const network of NETWORKS) {
            for (let seed = 1; seed <= seeds; seed += 1) {
              yield { fromHz, toHz, kept, messageMs, network, seed };
            }
          }
        }
      }
    }
  }
}

const SHAPES = [
  { codec: 'pcm_s16le', channels: 1 },
  { codec: 'pcm_s16le', channels: 2 },
  { codec: 'pcm_f32le', channels: 1 },
] as const;

const formatsOf = ({ fromHz, toHz, seed }: RateChange): [SampleFormat, SampleFormat] => {
  const shape = SHAPES[seed % SHAPES.length]!;
  return [
    { ...shape, rateHz: fromHz },
    { ...shape, rateHz: toHz },
  ];
};

const speeches = new Map<string, Buffer>();

/** Speech as samples, made once for each format and seed. */
function speechIn(format: SampleFormat, durationMs: number, seed: number): Buffer {
  const key = `${JSON.stringify(format)} ${durationMs} ${seed}`;
  const known = speeches.get(key);
  if (known) return known;
  const random = seededRandom(seed);
  const mono = soundOf('speech', format.rateHz, durationMs, random);
  const sound = format.channels === 2 ? stereoOf(mono, random) : mono;
  const bytes = openSampleWriter(format.codec)(sound);
  speeches.set(key, bytes);
  return bytes;
}

/** Cuts a sound into messages of a number of samples, of which it may be no whole one: they differ by one then. */
function cut(bytes: Buffer, format: SampleFormat, samples: number, fromMs: number): SentMessage[] {
  const frameBytes = frameBytesOf(format);
  const messages: SentMessage[] = [];
  for (let k = 1; ; k += 1) {
    const from = Math.round((k - 1) * samples);
    const to = Math.round(k * samples);
    if (to * frameBytes > bytes.length) return messages;
    const sentMs = fromMs + (1000 * to) / format.rateHz;
    const message = bytes.subarray(from * frameBytes, to * frameBytes);
    messages.push({ message, sentMs, atMs: sentMs });
  }
}

/** Lets messages arrive as a network delivers them: in order. */
function deliver(
  messages: readonly SentMessage[],
  network: Network,
  changedMs: number,
  random: Random,
): SentMessage[] {
  const latenessMs = random() < 0.5 ? 1.5 : 4;
  const stallsAtMs = changedMs + STALL_FROM_MS + random() * (STALL_TO_MS - STALL_FROM_MS);
  let lastMs = 0;
  return messages.map((message) => {
    const { sentMs } = message;
    const isHeld = network === 'stall' && sentMs >= stallsAtMs && sentMs < stallsAtMs + STALL_MS;
    const readyMs = isHeld ? stallsAtMs + STALL_MS : sentMs;
    const lateMs =
      network === 'jitter' ? 2 * JITTER_MS * random() : -latenessMs * Math.log(1 - random() * 0.99);
    lastMs = Math.max(lastMs + 0.05, readyMs + lateMs);
    return { ...message, atMs: lastMs };
  });
}

/** The messages of a stream whose rate changes, and when it does. */
function arrivalsOfChange(
  change: RateChange,
  beforeMs: number,
  afterMs: number,
): { messages: SentMessage[]; changedMs: number } {
  const { toHz, fromHz, kept, messageMs, network, seed } = change;
  const [first, second] = formatsOf(change);
  const random = seededRandom(seed * 7919 + messageMs * 31 + fromHz * 7 + toHz);
  // Programs either count milliseconds or have buffers of a number of samples.
  const ofMs = (hz: number) => (hz * messageMs) / 1000;
  const after = kept === 'ms' ? ofMs(toHz) : Math.round(ofMs(toHz));
  const before = kept === 'ms' ? ofMs(fromHz) : after;
  const ahead = cut(speechIn(first, beforeMs, seed), first, before, 1000);
  const changedMs = ahead.at(-1)!.sentMs + (random() < 0.5 ? 0 : MOST_GAP_MS * random());
  const behind = cut(speechIn(second, afterMs, seed), second, after, changedMs);
  return { messages: deliver([...ahead, ...behind], network, changedMs, random), changedMs };
}

const AFTER_MS = 2500;
/** Long enough for a rate that was found out wrongly to be mended before it changes. */
const beforeMs = ({ messageMs }: RateChange) => Math.max(2500, 14 * messageMs);

/** Returns the time from the change until the new format is told, ms of sound; infinite if it never is. */
export async function findRateChange(change: RateChange, codecs: Codecs): Promise<number> {
  const { messages, changedMs } = arrivalsOfChange(change, beforeMs(change), AFTER_MS);
  const name = formatAudioFormat(formatsOf(change)[1]);
  let foundMs = Infinity;
  let sentMs = 0;
  const input = new AudioInput(
    'auto',
    codecs,
    { sink: () => {}, sound: new SoundBudget() },
    {
      onDetected: (format) => {
        if (sentMs > changedMs && formatAudioFormat(format) === name) foundMs = sentMs;
      },
      onOpaque: () => {},
      onMismatch: () => {},
      onFault: (fault) => {
        throw fault;
      },
    },
  );
  for (const message of messages) {
    ({ sentMs } = message);
    if (foundMs < Infinity) break;
    input.push(message.message, message.atMs);
    await new Promise(setImmediate);
  }
  input.close();
  return foundMs - changedMs;
}
