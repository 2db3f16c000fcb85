import { SENDERS, type Sender, sayTrack } from '../../test/support/senders.ts';
import { musicTrack, spokenTrack, type Track } from '../../test/support/speech.ts';
import { encodeOnceMore, hearTurns } from '../../test/support/turns.ts';
import { AS_SAMPLES, AS_SENT, head, row, type Setting, shareOver, VOICES } from './setting.ts';

const RUNNING_PAUSE_MS = 60;

/**
 * Reports the words of a speaker that continues while another begins and ends: listeners change from its
 * packets to a mix and back. Beside it, the same stream encoded once more in one piece, which is the least
 * loss that a mix causes.
 */
export async function reportSwitches({ codecs, openRoom, print, signal }: Setting): Promise<void> {
  const columns = [AS_SAMPLES, AS_SENT].flatMap(({ name }) => [
    `${name}: windows`,
    'off > 1 dB',
    'off > 3 dB',
    'worst',
  ]);
  print(head('speaker that goes on', ...columns, 'encoded once more: off > 1 dB'));
  const speech = await spokenTrack({ voice: VOICES[0]!, pauseMs: RUNNING_PAUSE_MS });
  const music = await musicTrack({ chords: 24 });
  const { pcm, browser, celt } = SENDERS;
  const subjects: [string, Sender, Track][] = [
    ...[pcm, browser, celt].map((sender): [string, Sender, Track] => [sender.name, sender, speech]),
    [`music, ${pcm.name}`, pcm, music],
    [`music, ${celt.name}`, celt, music],
  ];
  for (const [name, sender, track] of subjects) {
    const said = await sayTrack(codecs, 'a', sender, track);
    const cells: (string | number)[] = [];
    for (const hearing of [AS_SAMPLES, AS_SENT]) {
      signal.throwIfAborted();
      cells.push(...cellsOf(await hearTurns(codecs, said, { ...hearing, openRoom })));
    }
    print(row(name, ...cells, shareOver(await encodeOnceMore(codecs, said), 1)));
  }
}

function cellsOf(errors: number[]): (string | number)[] {
  const worstDb = errors.reduce((worst, error) => Math.max(worst, Math.abs(error)), 0);
  return [errors.length, shareOver(errors, 1), shareOver(errors, 3), `${worstDb.toFixed(1)} dB`];
}
