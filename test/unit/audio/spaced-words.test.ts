import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat } from '../../../src/audio/format.ts';
import { compareWords, reportWords } from '../../support/heard-words.ts';
import {
  SENDERS,
  SENDERS_IN_CONTAINERS,
  SENDERS_OF_FILES,
  SENDERS_OF_SAMPLES,
  sayTrack,
} from '../../support/senders.ts';
import { joinAll, SimulatedRoom, soundOf } from '../../support/simulated-room.ts';
import { spokenTrack, type Track } from '../../support/speech.ts';

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
/** No word begins more than 3 dB louder than it was sent, or for 40 ms more than 6 dB softer. */
const AS_SENT = { loud3: 0, soft: 0, missing: 0 };

const PAUSES_MS = [300, 1000, 3000, 30_000];
/** Rest of a pause after the last word: its end is heard. */
const END_MS = 200;
/** Difference of the delays of two words: a message and a tick. */
const MOST_APART_MS = 120;

/** A word after each of the pauses, in a soft noise. */
async function wordsAfterPauses(): Promise<Track> {
  const parts = await Promise.all(
    PAUSES_MS.map((pauseMs) => spokenTrack({ words: 1, pauseMs, noiseDb: -60 })),
  );
  const sounds = parts.map(({ sound }, i) => sound.subarray(0, -48 * (PAUSES_MS[i]! - END_MS)));
  let at = 0;
  const words = parts.map((part, i) => {
    const { fromSample, samples } = part.words[0]!;
    const word = { fromSample: at + fromSample, samples };
    at += sounds[i]!.length;
    return word;
  });
  return { sound: joinAll(sounds), words };
}

let codecs: Codecs;
let track: Track;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  track = await wordsAfterPauses();
});

/** Files whose messages last about 20 ms. For longer ones the pacer changes the length of pauses, which the reference does not show. */
const EVEN_FILES = SENDERS_OF_FILES.filter(({ name }) => /MP3|AAC/.test(name));

test.each([
  SENDERS.celt,
  SENDERS.long,
  SENDERS.dtx,
  ...SENDERS_OF_SAMPLES,
  ...SENDERS_IN_CONTAINERS,
  ...EVEN_FILES,
])(
  'words said as $name, after pauses of 0.3 to 30 s in soft noise: each begins as it was said',
  async (sender) => {
    const said = await sayTrack(codecs, 'a', sender, track);
    for (const format of [PCM, OPUS]) {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', format);
      await room.play(said.arrivals);
      room.mixer.close();
      const errors = compareWords(said.reference, await soundOf(codecs, heard), said.words);
      expect(reportWords(errors)).toMatchObject({ ...AS_SENT, words: PAUSES_MS.length });
      const lateMs = errors.map(({ offSamples }) => offSamples / 48);
      expect(Math.max(...lateMs) - Math.min(...lateMs)).toBeLessThan(MOST_APART_MS);
    }
  },
);
