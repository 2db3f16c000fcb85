import type { Codecs } from '../../src/audio/codecs.ts';
import { compareWords, reportWords, type WordError } from '../../test/support/heard-words.ts';
import { SENDERS, type Sender, sayTrack } from '../../test/support/senders.ts';
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

/** How words begin: each kind of sender and listener, two voices, pauses of three lengths. */
export async function reportBeginnings(
  codecs: Codecs,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  say(head('sender', 'heard', ...ERROR_COLUMNS, 'frames'));
  const options = VOICES.flatMap((voice) => PAUSES_MS.map((pauseMs) => ({ voice, pauseMs })));
  const tracks: Track[] = [];
  for (const option of options) tracks.push(await spokenTrack(option));
  for (const sender of Object.values(SENDERS)) {
    for (const hearing of HEARINGS) {
      signal.throwIfAborted();
      const { errors, frames } = await hearWords(codecs, sender, hearing, tracks);
      const cells = errorCells(reportWords(errors));
      say(row(sender.name, hearing.name, ...cells, frames));
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
