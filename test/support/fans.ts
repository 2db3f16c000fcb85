import type { Codecs } from '../../src/audio/codecs.ts';
import type { AudioFormat } from '../../src/audio/format.ts';
import { compareWords, type WordError } from './heard-words.ts';
import { SENDERS, sayTrack } from './senders.ts';
import { type Arrival, type OpenRoom, SimulatedRoom, soundOf } from './simulated-room.ts';
import { noise, spokenTrack } from './speech.ts';

const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
export const FANS = 8;
/** Duration of the noises before the speaker begins. */
const FANS_BEFORE_MS = 2500;

type Options = { words: number; levelDb?: number; openRoom?: OpenRoom };

/**
 * Beginnings of the words of a speaker beside eight open microphones with steady noise; both levels are in dBov.
 */
export async function hearOverFans(
  codecs: Codecs,
  noiseDb: number,
  { words, levelDb = -26, openRoom = (speakers) => new SimulatedRoom(codecs, speakers) }: Options,
): Promise<WordError[]> {
  const track = await spokenTrack({ words, levelDb });
  const speaker = await sayTrack(codecs, 'speaker', SENDERS.browser, track, FANS_BEFORE_MS);
  const lengthMs = FANS_BEFORE_MS + track.sound.length / 48;
  const names = Array.from({ length: FANS }, (_, i) => `fan ${i}`);
  const fans: Arrival[][] = [];
  for (const [i, name] of names.entries()) {
    const sound = noise(noiseDb, lengthMs, i + 20);
    const fan = await sayTrack(codecs, name, SENDERS.celt, { sound, words: [] });
    fans.push(fan.arrivals);
  }
  const room = openRoom([...names, 'speaker']);
  const heard = room.listen('x', PCM);
  // The fans, which are mixed as well, would hide softer words from the comparison.
  room.setVolume(heard, Object.fromEntries(names.map((name) => [name, 0])));
  await room.play(speaker.arrivals, ...fans);
  room.mixer.close();
  const laterSamples = FANS_BEFORE_MS * 48;
  const pieces = (await soundOf(codecs, heard)).map(({ fromSample, sound }) => ({
    fromSample: fromSample - laterSamples,
    sound,
  }));
  return compareWords(speaker.reference, pieces, speaker.words);
}
