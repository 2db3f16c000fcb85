import type { Codecs } from '../../src/audio/codecs.ts';
import { compareWords, reportWords, type WordError } from '../../test/support/heard-words.ts';
import {
  SENDERS,
  SENDERS_BY_LENGTH,
  SENDERS_IN_CONTAINERS,
  SENDERS_OF_FILES,
  SENDERS_OF_SAMPLES,
  type Sender,
  sayTrack,
} from '../../test/support/senders.ts';
import { SimulatedRoom, soundOf } from '../../test/support/simulated-room.ts';
import { spokenTrack, type Track } from '../../test/support/speech.ts';
import {
  ERROR_COLUMNS,
  errorCells,
  head,
  type Subscription,
  HEARINGS,
  row,
  VOICES,
} from './setting.ts';

const PAUSES_MS = [300, 1000, 3000];
/** Pause longer than the hold time of talk, and than the part of a stream that is kept, ms. */
const LONG_PAUSE_MS = 30_000;
const FEW_WORDS = 4;
const NOISE_DB = -50;
const OTHER_FORMATS = [...SENDERS_OF_SAMPLES, ...SENDERS_IN_CONTAINERS, ...SENDERS_OF_FILES];

/**
 * Reports the beginnings of words for each kind of sender and listener, two voices, pauses of four lengths,
 * in quiet and in noise; and from packets of other lengths, and other formats, with one voice.
 */
export async function reportBeginnings(
  codecs: Codecs,
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  print(head('sender', 'heard', ...ERROR_COLUMNS, 'frames'));
  const options = VOICES.flatMap((voice) => PAUSES_MS.map((pauseMs) => ({ voice, pauseMs })));
  const tracks: Track[] = [];
  for (const option of options) tracks.push(await spokenTrack(option));
  tracks.push(await spokenTrack({ pauseMs: LONG_PAUSE_MS, words: FEW_WORDS }));
  tracks.push(await spokenTrack({ pauseMs: PAUSES_MS[1]!, noiseDb: NOISE_DB }));
  const rows: [Sender, Track[]][] = [
    ...Object.values(SENDERS).map((sender): [Sender, Track[]] => [sender, tracks]),
    ...SENDERS_BY_LENGTH.map((sender): [Sender, Track[]] => [sender, tracks.slice(0, 2)]),
    ...OTHER_FORMATS.map((sender): [Sender, Track[]] => [sender, tracks.slice(1, 2)]),
  ];
  for (const [sender, said] of rows) {
    for (const hearing of HEARINGS) {
      signal.throwIfAborted();
      const { errors, frames } = await hearWords(codecs, sender, hearing, said);
      const cells = errorCells(reportWords(errors));
      print(row(sender.name, hearing.name, ...cells, frames));
    }
  }
}

async function hearWords(codecs: Codecs, sender: Sender, hearing: Subscription, tracks: Track[]) {
  const errors: WordError[] = [];
  let frames = 0;
  for (const track of tracks) {
    const { arrivals, reference, words } = await sayTrack(codecs, 'a', sender, track);
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', hearing.format, hearing.delivery);
    await room.play(arrivals);
    room.mixer.close();
    errors.push(...compareWords(reference, await soundOf(codecs, heard), words));
    frames += heard.frames.length;
  }
  return { errors, frames };
}
