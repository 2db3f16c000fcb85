import { SENDERS, type Sender, sayTrack } from '../../test/support/senders.ts';
import { musicTrack, spokenTrack, type Track } from '../../test/support/speech.ts';
import { encodeOnceMore, hearTurns } from '../../test/support/turns.ts';
import { AS_SAMPLES, AS_SENT, head, row, type Setting, shareOver, VOICES } from './setting.ts';

/** Pause before each word of the speaker that continues, ms: the speaker talks nearly all the time. */
const RUNNING_PAUSE_MS = 60;

/**
 * Reports the level errors of a speaker that continues while another begins and ends: its listeners change
 * from its packets to a mix and back. The last column is the same stream encoded once more in one piece, the
 * least error that a mix can have.
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

/** @param errors level errors of windows of 20 ms, dB */
function cellsOf(errors: number[]): (string | number)[] {
  const worstDb = errors.reduce((worst, error) => Math.max(worst, Math.abs(error)), 0);
  return [errors.length, shareOver(errors, 1), shareOver(errors, 3), `${worstDb.toFixed(1)} dB`];
}
