import type { Codecs } from '../../src/audio/codecs.ts';
import { compareWords } from '../../test/support/heard-words.ts';
import { SENDERS, sayTrack } from '../../test/support/senders.ts';
import { type Arrival, SimulatedRoom, soundOf } from '../../test/support/simulated-room.ts';
import { noise, spokenTrack } from '../../test/support/speech.ts';
import { head, PCM, row } from './setting.ts';

const NOISES_DB = [-50, -45, -40, -35];
const FANS = 8;
/** How long the noises have lasted when somebody begins to speak. */
const FANS_BEFORE_MS = 2500;
const WORDS = 20;
const MOST_SOFT_MS = 40;

/** How much of a speaker at -26 dBov is heard beside eight open microphones with steady noise. */
export async function reportNoise(
  codecs: Codecs,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  say(head(`speech at -26 dBov beside ${FANS} steady noises at`, 'words heard', 'heard whole'));
  for (const noiseDb of NOISES_DB) {
    signal.throwIfAborted();
    const errors = await hearOverFans(codecs, noiseDb);
    const found = errors.filter(({ isMissing }) => !isMissing);
    const whole = found.filter(({ softMs }) => softMs < MOST_SOFT_MS);
    say(row(`${noiseDb} dBov`, `${found.length} of ${errors.length}`, whole.length));
  }
}

async function hearOverFans(codecs: Codecs, noiseDb: number) {
  const track = await spokenTrack({ words: WORDS });
  const speaker = await sayTrack(codecs, 'speaker', SENDERS.browser, track, FANS_BEFORE_MS);
  const lengthMs = FANS_BEFORE_MS + track.sound.length / 48;
  const names = Array.from({ length: FANS }, (_, i) => `fan ${i}`);
  const fans: Arrival[][] = [];
  for (const [i, name] of names.entries()) {
    const sound = noise(noiseDb, lengthMs, i + 20);
    const fan = await sayTrack(codecs, name, SENDERS.celt, { sound, words: [] });
    fans.push(fan.arrivals);
  }
  const room = new SimulatedRoom(codecs, [...names, 'speaker']);
  const heard = room.listen('x', PCM);
  await room.play(speaker.arrivals, ...fans);
  room.mixer.close();
  const laterSamples = FANS_BEFORE_MS * 48;
  const pieces = (await soundOf(codecs, heard)).map(({ fromSample, sound }) => ({
    fromSample: fromSample - laterSamples,
    sound,
  }));
  return compareWords(speaker.reference, pieces, speaker.words);
}
