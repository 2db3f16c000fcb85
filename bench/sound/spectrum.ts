import type { Codecs } from '../../src/audio/codecs.ts';
import {
  sayTrack,
  type Sender,
  SENDERS,
  SENDERS_OF_FILES,
  SENDERS_OF_SAMPLES,
} from '../../test/support/senders.ts';
import { SimulatedRoom, soundOf } from '../../test/support/simulated-room.ts';
import { spectralDistance } from '../../test/support/spectral-distance.ts';
import { musicTrack, spokenTrack, type Track } from '../../test/support/speech.ts';
import { head, HEARINGS, row, VOICES } from './setting.ts';

const WORDS = 20;
const PAUSE_MS = 300;

/**
 * Reports the log-spectral distance between spoken and heard audio over the whole chain, for each kind of
 * sender and listener; beside it that of the sender's own stream, decoded whole.
 */
export async function reportSpectrum(
  codecs: Codecs,
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const speech = await spokenTrack({ voice: VOICES[1]!, words: WORDS, pauseMs: PAUSE_MS });
  const tracks: [string, Track][] = [
    ['speech', speech],
    ['music', await musicTrack()],
  ];
  const columns = HEARINGS.map(({ name }) => name);
  print(head('log-spectral distance', 'sent as', 'up to', 'own stream', ...columns));
  for (const [name, track] of tracks) {
    for (const sender of [...Object.values(SENDERS), ...SENDERS_OF_SAMPLES, ...SENDERS_OF_FILES]) {
      signal.throwIfAborted();
      const { highestHz, own, heard } = await measureDistances(codecs, sender, track);
      const decibels = [own, ...heard].map((db) =>
        db === undefined ? '–' : `${db.toFixed(2)} dB`,
      );
      print(row(name, sender.name, `${highestHz / 1000} kHz`, ...decibels));
    }
  }
}

async function measureDistances(codecs: Codecs, sender: Sender, track: Track) {
  const { arrivals, reference } = await sayTrack(codecs, 'a', sender, track);
  const { highestHz = 8000 } = sender;
  // A listener that joins before the first word is sent unchanged packets from the pause after that
  // word on.
  const words = track.words.slice(1);
  const distanceTo = (pieces: Parameters<typeof spectralDistance>[1]) =>
    spectralDistance(track.sound, pieces, words, highestHz);
  const own = distanceTo([{ fromSample: 0, sound: reference }]);
  const heard: (number | undefined)[] = [];
  for (const { format, delivery } of HEARINGS) {
    const room = new SimulatedRoom(codecs, ['a']);
    const listener = room.listen('x', format, delivery);
    await room.play(arrivals);
    room.mixer.close();
    heard.push(distanceTo(await soundOf(codecs, listener)));
  }
  return { highestHz, own, heard };
}
