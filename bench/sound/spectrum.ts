import {
  sayTrack,
  type Sender,
  SENDERS,
  SENDERS_IN_CONTAINERS,
  SENDERS_OF_FILES,
  SENDERS_OF_SAMPLES,
} from '../../test/support/senders.ts';
import { soundOf } from '../../test/support/simulated-room.ts';
import { distanceMeter } from '../../test/support/spectral-distance.ts';
import { musicTrack, spokenTrack, type Track } from '../../test/support/speech.ts';
import { head, HEARINGS, row, type Setting, VOICES } from './setting.ts';

const WORDS = 20;
const PAUSE_MS = 300;
const ALL = [
  ...Object.values(SENDERS),
  ...SENDERS_OF_SAMPLES,
  ...SENDERS_IN_CONTAINERS,
  ...SENDERS_OF_FILES,
];

/**
 * Reports the log-spectral distance between spoken and heard audio over the whole chain, for each kind of
 * sender and listener: that of the sender's own stream, decoded whole, and by how much others differ from it.
 */
export async function reportSpectrum(setting: Setting): Promise<void> {
  const heard = `more: ${HEARINGS.map(({ name }) => name).join(' / ')}`;
  const columns = [
    'speech, own stream',
    `${heard} (goal: within 0.1 dB)`,
    'music, own stream',
    heard,
  ];
  setting.print(head('log-spectral distance, sent as', 'up to', ...columns));
  const speech = await spokenTrack({ voice: VOICES[1]!, words: WORDS, pauseMs: PAUSE_MS });
  const music = await musicTrack();
  for (const sender of ALL) {
    const { highestHz = 8000 } = sender;
    const cells = [
      ...(await measureDistances(setting, sender, highestHz, speech)),
      ...(await measureDistances(setting, sender, highestHz, music)),
    ];
    setting.print(row(sender.name, `${highestHz / 1000} kHz`, ...cells));
  }
}

/** Returns the distance of the sender's own stream, and what is added to it. */
async function measureDistances(
  { codecs, openRoom, signal }: Setting,
  sender: Sender,
  highestHz: number,
  track: Track,
): Promise<[own: string, more: string]> {
  const { arrivals, reference } = await sayTrack(codecs, 'a', sender, track);
  // A listener that joins before the first word is sent unchanged packets from the pause after that
  // word on.
  const distanceTo = distanceMeter(track.sound, reference, track.words.slice(1), highestHz);
  const own = distanceTo([{ fromSample: 0, sound: reference }])!;
  const more: string[] = [];
  for (const { format, delivery } of HEARINGS) {
    signal.throwIfAborted();
    const room = openRoom(['a']);
    const listener = room.listen('x', format, delivery);
    await room.play(arrivals);
    room.mixer.close();
    const distance = distanceTo(await soundOf(codecs, listener));
    more.push(distance === undefined ? '–' : rounded(distance - own).toFixed(2));
  }
  return [`${own.toFixed(2)} dB`, `${more.join(' / ')} dB`];
}

/** Returns a number to two places, and no zero with a sign. */
const rounded = (db: number) => Math.round(db * 100) / 100 || 0;
