import type { Codecs } from '../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../src/audio/format.ts';
import { ENCODER_DELAY_SAMPLES } from '../../src/audio/opus-codec.ts';
import { compareEntry, type EntryError } from './heard-words.ts';
import { decodeWhole, SENDERS, type Sender, sayTrack } from './senders.ts';
import { type Arrival, type Heard, SimulatedRoom, soundOf, streamOf } from './simulated-room.ts';
import { encodeOpus } from './sound.ts';
import { noise, type Track, type Word } from './speech.ts';

/**
 * Listeners that hear a word from its middle on: they join then, perhaps as the first ones on their node, change how they hear, the speaker
 * is unmuted, or the mix moves.
 */

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };

type Subscription = { format: AudioFormat; delivery?: Delivery };
const AS_SAMPLES: Subscription = { format: PCM };
const AS_OPUS: Subscription = { format: OPUS };
const APART: Subscription = { format: OPUS, delivery: 'forward' };

/** Position of the change in a word. */
export const AT_SHARE = 0.35;
/** Shortest rest of a word that is compared. */
export const LEAST_REST_MS = 150;
/**
 * Offsets of the encodings with which a mix is compared. Its frames begin at any offset from those of a sound that is encoded in one
 * piece, which alone makes soft windows of 5 ms up to 11 dB louder or softer.
 */
const FRAMES_EARLIER_MS = [0, 2.5, 5, 7.5, 10, 12.5, 15, 17.5];
/** Time after a word until the listener leaves, or hears as at first again. */
export const AFTER_WORD_MS = 200;
/** Time before a word at which the speaker is muted, or the listener suspended. */
const MUTED_BEFORE_MS = 400;
export const SECOND_SPEAKER = 'b';
/** Level of the second speaker, dBov: so soft that it changes no window of a word that is compared. */
const SECOND_DB = -62;
/** Audio levels that its packets state, each for a second: they count as talk, and not as steady noise. */
const SECOND_LEVELS = [57, 63];

export type Entry = {
  name: string;
  /** Subscription of the listener before the word's middle; undefined if it is not there yet. */
  before?: Subscription;
  /** Subscription of the listener from the middle of the word on. */
  after: Subscription;
  /** The speaker is muted before: its packets come all the same, or do not come; on another node, whose state tells of the unmute late. */
  muted?: 'withheld' | 'away' | 'elsewhere';
  /** The mix moves to another thread. */
  moves?: boolean;
  /** The listener is suspended before the word, and resumes. */
  resumes?: boolean;
  /** The listener is the first on its node, which gets nothing of the speaker before. */
  isOnNewNode?: boolean;
  /** A second speaker, far softer, talks all the time, so that there is a mix. */
  isBesideTalk?: boolean;
  /** Another listener hears the speaker as samples all the time. */
  isBesideMix?: boolean;
};

export const ENTRIES: Entry[] = [
  { name: 'joins, PCM', after: AS_SAMPLES },
  { name: 'joins, Opus', after: AS_OPUS },
  { name: 'joins, `forward`', after: APART },
  { name: 'joins, Opus, beside a mix', after: AS_OPUS, isBesideMix: true },
  { name: 'joins, `forward`, beside a mix', after: APART, isBesideMix: true },
  { name: 'changes from PCM to Opus', before: AS_SAMPLES, after: AS_OPUS },
  { name: 'changes from Opus to PCM', before: AS_OPUS, after: AS_SAMPLES },
  { name: 'changes from `mix` to `forward`', before: AS_OPUS, after: APART },
  { name: 'changes from `forward` to `mix`', before: APART, after: AS_OPUS },
  { name: 'speaker unmuted, PCM', before: AS_SAMPLES, after: AS_SAMPLES, muted: 'withheld' },
  { name: 'speaker unmuted, Opus', before: AS_OPUS, after: AS_OPUS, muted: 'withheld' },
  { name: 'speaker unmuted, `forward`', before: APART, after: APART, muted: 'withheld' },
  { name: 'browser unmuted, PCM', before: AS_SAMPLES, after: AS_SAMPLES, muted: 'away' },
  { name: 'browser unmuted, Opus', before: AS_OPUS, after: AS_OPUS, muted: 'away' },
  { name: 'browser unmuted, `forward`', before: APART, after: APART, muted: 'away' },
  {
    name: 'browser on another node unmuted, PCM',
    before: AS_SAMPLES,
    after: AS_SAMPLES,
    muted: 'elsewhere',
  },
  {
    name: 'browser on another node unmuted, Opus',
    before: AS_OPUS,
    after: AS_OPUS,
    muted: 'elsewhere',
  },
  {
    name: 'browser on another node unmuted, `forward`',
    before: APART,
    after: APART,
    muted: 'elsewhere',
  },
  { name: 'the mix moves, PCM', before: AS_SAMPLES, after: AS_SAMPLES, moves: true },
  { name: 'the mix moves, Opus', before: AS_OPUS, after: AS_OPUS, moves: true, isBesideTalk: true },
  {
    name: 'the mix moves, as sent beside it',
    before: AS_OPUS,
    after: AS_OPUS,
    moves: true,
    isBesideMix: true,
  },
  {
    name: 'the mix moves, `forward`',
    before: APART,
    after: APART,
    moves: true,
    isBesideMix: true,
  },
  { name: 'joins on another node as the first, PCM', after: AS_SAMPLES, isOnNewNode: true },
  { name: 'joins on another node as the first, Opus', after: AS_OPUS, isOnNewNode: true },
  { name: 'joins on another node as the first, `forward`', after: APART, isOnNewNode: true },
  { name: 'resumes, PCM', before: AS_SAMPLES, after: AS_SAMPLES, resumes: true },
  { name: 'resumes, Opus', before: AS_OPUS, after: AS_OPUS, resumes: true },
  { name: 'resumes, `forward`', before: APART, after: APART, resumes: true },
];

export type Said = Awaited<ReturnType<typeof sayForEntries>>;

/**
 * Says a track, and encodes it again as a mix may have. A window is compared with the nearest of them: a listener to Opus hears the
 * stream itself, or a mix that was encoded anew from any moment on, and can tell neither from the other.
 */
export async function sayForEntries(codecs: Codecs, sender: Sender, track: Track) {
  const said = await sayTrack(codecs, 'a', sender, track);
  const references = [said.reference, ...(await encodeAnew(codecs, said.reference))];
  return { ...said, references };
}

/** Returns a sound as mixes may have encoded it, whose frames begin at different offsets. */
async function encodeAnew(codecs: Codecs, sound: Float32Array): Promise<Float32Array[]> {
  const encoded: Float32Array[] = [];
  for (const ms of FRAMES_EARLIER_MS) encoded.push(await encodeAgain(codecs, sound, ms));
  return encoded;
}

/** Returns the stream of a speaker, and what mixes may have encoded of it with the sound of a second one. */
async function referencesBeside(
  codecs: Codecs,
  reference: Float32Array,
  second: Arrival[],
): Promise<Float32Array[]> {
  const ofSecond = await decodeWhole(
    codecs,
    second.map(({ packet }) => packet.payload),
  );
  const sum = reference.map((sample, i) => sample + (ofSecond[i] ?? 0));
  return [reference, ...(await encodeAnew(codecs, sum))];
}

/** Compares each word, as a listener hears it from its middle on, with the word as it was sent. */
export async function hearEntries(
  codecs: Codecs,
  entry: Entry,
  { arrivals, words, references }: Said,
): Promise<EntryError[]> {
  const room = new SimulatedRoom(codecs, ['a', SECOND_SPEAKER]);
  if (entry.isBesideMix) room.listen('y', PCM);
  const open = ({ format, delivery }: Subscription) => room.prepare('x', format, delivery);
  let now: Heard | undefined;
  const change = (next: Heard | undefined) => {
    if (now && next) room.mixer.updateListener(now.listener, next.listener);
    else if (next) room.mixer.addListener(next.listener);
    else if (now) room.mixer.removeListener(now.listener);
    now = next;
  };
  change(entry.before && open(entry.before));
  const errors: EntryError[] = [];
  let [at, skipped] = [0, 0];
  const second = entry.isBesideTalk ? await saySoftly(arrivals.at(-1)!.atMs) : [];
  const compared = entry.isBesideTalk
    ? await referencesBeside(codecs, references[0]!, second)
    : references;
  const playUntil = async (ms: number, isUnheard = false) => {
    const from = at;
    const ofSecond: Arrival[] = [];
    while (second[0] && second[0].atMs < ms) ofSecond.push(second.shift()!);
    while (at < arrivals.length && arrivals[at]!.atMs < ms) at += 1;
    if (isUnheard && entry.muted !== 'withheld') {
      // A consumer of mediasoup numbers on after a pause.
      skipped += at - from;
      await room.passTo(ms);
      return;
    }
    const due = arrivals.slice(from, at).map((arrival): Arrival => {
      const sequenceNumber = arrival.packet.sequenceNumber - skipped;
      return { ...arrival, packet: { ...arrival.packet, sequenceNumber }, isMuted: isUnheard };
    });
    await room.play(due, ofSecond);
  };
  for (const word of words) {
    const atMs = (word.fromSample + word.samples * AT_SHARE) / 48;
    const endMs = (word.fromSample + word.samples) / 48;
    if (entry.muted) {
      await playUntil(word.fromSample / 48 - MUTED_BEFORE_MS);
      if (entry.muted === 'away') room.mixer.setMuted('a', true, room.nowMs);
      if (entry.muted === 'elsewhere') room.mixer.setMutedElsewhere('a', true, room.nowMs);
    }
    if (entry.resumes) {
      await playUntil(word.fromSample / 48 - MUTED_BEFORE_MS);
      room.mixer.removeListener(now!.listener);
    }
    if (entry.isOnNewNode) room.mixer.removeSpeaker('a');
    await playUntil(atMs, entry.muted !== undefined || entry.isOnNewNode);
    if (entry.isOnNewNode) {
      room.mixer.addSpeaker('a', 1);
      room.mixer.enterStream('a', room.nowMs);
    }
    if (entry.resumes) room.mixer.addListener(now!.listener);
    if (entry.muted === 'away') room.mixer.setMuted('a', false, room.nowMs);
    if (entry.moves) room.moveMix();
    const goesOn = entry.muted !== undefined || entry.moves || entry.resumes;
    const after = goesOn ? now! : open(entry.after);
    const framesBefore = after.frames.length;
    if (!goesOn) change(after);
    await playUntil(endMs + AFTER_WORD_MS);
    if (entry.muted === 'elsewhere') room.mixer.setMutedElsewhere('a', false, room.nowMs);
    if (!goesOn) change(entry.before && open(entry.before));
    const heard = goesOn ? after : { ...after };
    const rest = { fromSample: Math.round(atMs * 48), samples: Math.round((endMs - atMs) * 48) };
    if (rest.samples < LEAST_REST_MS * 48) continue;
    const pieces = (await soundOf(codecs, heard, framesBefore)).filter(({ sound }) => sound.length);
    errors.push(compareEntry(compared, pieces, rest));
  }
  room.mixer.close();
  return errors;
}

/** Returns the packets of a second speaker. */
export async function saySoftly(durationMs: number): Promise<Arrival[]> {
  const packets = await encodeOpus(noise(SECOND_DB, durationMs, 3));
  return streamOf(SECOND_SPEAKER, packets).map((arrival) => {
    const audioLevel = SECOND_LEVELS[Math.floor(arrival.atMs / 1000) % SECOND_LEVELS.length];
    return { ...arrival, packet: { ...arrival.packet, audioLevel } };
  });
}

/** Returns a sound encoded in one piece by the gateway's own encoder, and decoded; its frames begin `earlierMs` earlier. */
async function encodeAgain(
  codecs: Codecs,
  sound: Float32Array,
  earlierMs: number,
): Promise<Float32Array> {
  const earlierSamples = earlierMs * 48;
  const moved = new Float32Array(earlierSamples + sound.length);
  moved.set(sound, earlierSamples);
  const words: Word[] = [];
  const { reference } = await sayTrack(codecs, 'again', SENDERS.pcm, { sound: moved, words });
  return reference.subarray(earlierSamples + ENCODER_DELAY_SAMPLES);
}

export const countEntries = (errors: EntryError[]) => {
  const late = errors.map(({ lateMs }) => lateMs).toSorted((a, b) => a - b);
  return {
    words: errors.length,
    loud3: errors.filter(({ loudestDb }) => loudestDb > 3).length,
    loud6: errors.filter(({ loudestDb }) => loudestDb > 6).length,
    worstDb: Math.max(...errors.map(({ loudestDb }) => loudestDb)),
    soft: errors.filter(({ softMs }) => softMs >= 40).length,
    missing: errors.filter(({ isMissing }) => isMissing).length,
    lateMs: { median: late[late.length >> 1] ?? 0, most: late.at(-1) ?? 0 },
  };
};
