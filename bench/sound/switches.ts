import type { Codecs } from '../../src/audio/codecs.ts';
import { SENDERS, type Sender, sayTrack } from '../../test/support/senders.ts';
import { musicTrack, spokenTrack, type Track } from '../../test/support/speech.ts';
import { encodeOnceMore, hearTurns } from '../../test/support/turns.ts';
import { AS_SAMPLES, AS_SENT, head, row, VOICES } from './setting.ts';

const RUNNING_PAUSE_MS = 60;

/**
 * Reports the words of a speaker that continues while another begins and ends: listeners change from its
 * packets to a mix and back. Beside it, the same stream encoded once more in one piece, which is the least
 * loss that a mix causes.
 */
export async function reportSwitches(
  codecs: Codecs,
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  print(head('speaker that goes on', 'heard', 'windows', 'off > 1 dB', 'off > 3 dB', 'worst'));
  const speech = await spokenTrack({ voice: VOICES[0]!, pauseMs: RUNNING_PAUSE_MS });
  const subjects: [string, Sender, Track][] = [SENDERS.pcm, SENDERS.browser, SENDERS.celt].map(
    (sender): [string, Sender, Track] => [sender.name, sender, speech],
  );
  const music = await musicTrack({ chords: 24 });
  subjects.push(
    ...[SENDERS.pcm, SENDERS.celt].map((sender): [string, Sender, Track] => [
      `music, ${sender.name}`,
      sender,
      music,
    ]),
  );
  for (const [name, sender, track] of subjects) {
    const said = await sayTrack(codecs, 'a', sender, track);
    for (const hearing of [AS_SAMPLES, AS_SENT]) {
      signal.throwIfAborted();
      print(lineOf(name, hearing.name, await hearTurns(codecs, said, hearing)));
    }
    print(lineOf(name, 'encoded once more', await encodeOnceMore(codecs, said)));
  }
}

function lineOf(sender: string, heard: string, errors: number[]): string {
  const shareOver = (db: number) =>
    `${((100 * errors.filter((error) => Math.abs(error) > db).length) / errors.length).toFixed(2)} %`;
  const worstDb = errors.reduce((worst, error) => Math.max(worst, Math.abs(error)), 0);
  return row(sender, heard, errors.length, shareOver(1), shareOver(3), `${worstDb.toFixed(1)} dB`);
}
