import type { Codecs } from '../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../src/audio/format.ts';
import { windowErrors } from './heard-words.ts';
import { SENDERS, sayTrack } from './senders.ts';
import { SimulatedRoom, soundOf } from './simulated-room.ts';
import { spokenTrack } from './speech.ts';

/** A speaker that goes on while another begins and ends: listeners go over from its packets to a mix, and back. */

const TURNS_PAUSE_MS = 900;
const OTHER_VOICE = 'en-us+f3';
/** Words of the other speaker. */
const MOST_WORDS = 12;

type Said = Awaited<ReturnType<typeof sayTrack>>;

/** The level errors of the words of one who goes on, in windows of 20 ms ({@link windowErrors}), in dB. */
export async function hearTurns(
  codecs: Codecs,
  said: Said,
  hearing: { format: AudioFormat; delivery?: Delivery },
  words = MOST_WORDS,
): Promise<number[]> {
  const turns = await spokenTrack({ voice: OTHER_VOICE, words, pauseMs: TURNS_PAUSE_MS });
  const other = await sayTrack(codecs, 'b', SENDERS.browser, turns);
  const room = new SimulatedRoom(codecs, ['a', 'b']);
  const heard = room.listen('x', hearing.format, hearing.delivery);
  await room.play(said.arrivals, other.arrivals);
  room.mixer.close();
  return windowErrors(said.reference, await soundOf(codecs, heard), said.words, other.reference);
}

/** The same of a stream that is encoded once more in one piece: the least that a mix costs. */
export async function encodeOnceMore(codecs: Codecs, { reference, words }: Said) {
  const again = await sayTrack(codecs, 'a', SENDERS.pcm, { sound: reference, words });
  const pieces = [{ fromSample: 0, sound: again.reference }];
  return windowErrors(reference, pieces, words, new Float32Array());
}
