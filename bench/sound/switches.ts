import type { Codecs } from '../../src/audio/codecs.ts';
import { windowErrors } from '../../test/support/heard-words.ts';
import { SENDERS, type Sender, sayTrack } from '../../test/support/senders.ts';
import { SimulatedRoom, soundOf } from '../../test/support/simulated-room.ts';
import { spokenTrack } from '../../test/support/speech.ts';
import { AS_SAMPLES, AS_SENT, head, type Hearing, row, VOICES } from './setting.ts';

const RUNNING_PAUSE_MS = 60;
const TURNS_PAUSE_MS = 900;

/**
 * How the words of somebody who goes on sound while another begins and ends: listeners go over from what was sent to a mix and
 * back. Beside it, the same stream encoded once more in one piece, which is the least that a mix costs.
 */
export async function reportSwitches(
  codecs: Codecs,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  say(head('who goes on', 'heard', 'windows', 'off > 1 dB', 'off > 3 dB', 'worst'));
  for (const sender of [SENDERS.pcm, SENDERS.browser, SENDERS.celt]) {
    for (const hearing of [AS_SAMPLES, AS_SENT]) {
      signal.throwIfAborted();
      say(lineOf(sender.name, hearing.name, await hearTurns(codecs, sender, hearing)));
    }
    say(lineOf(sender.name, 'encoded once more', await encodeOnceMore(codecs, sender)));
  }
}

function lineOf(sender: string, heard: string, errors: number[]): string {
  const shareOver = (db: number) =>
    `${((100 * errors.filter((error) => Math.abs(error) > db).length) / errors.length).toFixed(2)} %`;
  const worstDb = errors.reduce((worst, error) => Math.max(worst, Math.abs(error)), 0);
  return row(sender, heard, errors.length, shareOver(1), shareOver(3), `${worstDb.toFixed(1)} dB`);
}

const goesOn = () => spokenTrack({ voice: VOICES[0]!, pauseMs: RUNNING_PAUSE_MS });

async function hearTurns(codecs: Codecs, sender: Sender, hearing: Hearing): Promise<number[]> {
  const said = await sayTrack(codecs, 'a', sender, await goesOn());
  const turns = await spokenTrack({ voice: VOICES[1]!, words: 12, pauseMs: TURNS_PAUSE_MS });
  const other = await sayTrack(codecs, 'b', sender, turns);
  const room = new SimulatedRoom(codecs, ['a', 'b']);
  const heard = room.listen('x', hearing.format, hearing.delivery);
  await room.play(said.arrivals, other.arrivals);
  room.mixer.close();
  return windowErrors(said.reference, await soundOf(codecs, heard), said.words, other.reference);
}

async function encodeOnceMore(codecs: Codecs, sender: Sender): Promise<number[]> {
  const said = await sayTrack(codecs, 'a', sender, await goesOn());
  const again = await sayTrack(codecs, 'a', SENDERS.pcm, {
    sound: said.reference,
    words: said.words,
  });
  return windowErrors(
    said.reference,
    [{ fromSample: 0, sound: again.reference }],
    said.words,
    new Float32Array(),
  );
}
