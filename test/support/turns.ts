import type { Codecs } from '../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../src/audio/format.ts';
import { windowErrors } from './heard-words.ts';
import { SENDERS, sayTrack } from './senders.ts';
import { type Heard, type OpenRoom, SimulatedRoom, soundOf } from './simulated-room.ts';
import { spokenTrack } from './speech.ts';

/** A speaker that goes on while another begins and ends: listeners go over from its packets to a mix, and back. */

const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const TURNS_PAUSE_MS = 900;
const OTHER_VOICE = 'en-us+f3';
/** Words of the other speaker. */
const MOST_WORDS = 12;

const SPEAKERS = ['a', 'b'];

type Said = Awaited<ReturnType<typeof sayTrack>>;

type Hearing = {
  format: AudioFormat;
  delivery?: Delivery;
  besidePcm?: boolean;
  openRoom?: OpenRoom;
};

/** The level errors of the words of one that goes on, in windows of 20 ms ({@link windowErrors}), in dB. */
export async function hearTurns(
  codecs: Codecs,
  said: Said,
  hearing: Hearing,
  words = MOST_WORDS,
): Promise<number[]> {
  const turns = await spokenTrack({ voice: OTHER_VOICE, words, pauseMs: TURNS_PAUSE_MS });
  const other = await sayTrack(codecs, 'b', SENDERS.browser, turns);
  const { openRoom = (speakers) => new SimulatedRoom(codecs, speakers) } = hearing;
  const room = openRoom(SPEAKERS);
  if (hearing.besidePcm) room.listen('y', PCM);
  const heard = room.listen('x', hearing.format, hearing.delivery);
  await room.play(said.arrivals, other.arrivals);
  room.mixer.close();
  if (hearing.delivery !== 'forward') {
    const pieces = await soundOf(codecs, heard);
    return windowErrors(said.reference, pieces, said.words, other.reference);
  }
  const own = await soundOf(codecs, framesOf(heard, SPEAKERS.indexOf('a') + 1));
  return windowErrors(said.reference, own, said.words, new Float32Array());
}

/** Returns those frames that a listener was given of one speaker, by its number (docs/protocol.md, "Delivery"). */
function framesOf(heard: Heard, number: number): Heard {
  const isOwn = heard.frames.map((frame) => frame.readUInt16BE(2) === number);
  return {
    ...heard,
    frames: heard.frames.filter((_, i) => isOwn[i]),
    framesAtMs: heard.framesAtMs.filter((_, i) => isOwn[i]),
  };
}

/** Errors of a stream that is encoded once more in one piece: the least that a mix costs. */
export async function encodeOnceMore(codecs: Codecs, { reference, words }: Said) {
  const again = await sayTrack(codecs, 'a', SENDERS.pcm, { sound: reference, words });
  const pieces = [{ fromSample: 0, sound: again.reference }];
  return windowErrors(reference, pieces, words, new Float32Array());
}
