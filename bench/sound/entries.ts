import type { Codecs } from '../../src/audio/codecs.ts';
import { countEntries, ENTRIES, hearEntries, sayForEntries } from '../../test/support/entries.ts';
import { SENDERS } from '../../test/support/senders.ts';
import { spokenTrack } from '../../test/support/speech.ts';
import { head, row, VOICES } from './setting.ts';

const PAUSE_MS = 900;

/** How words sound from their middle on: to who joins then, changes how it hears, or hears a speaker who is unmuted. */
export async function reportEntries(
  codecs: Codecs,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  say(
    head(
      'in mid-word',
      'sender',
      'words',
      'begin > 3 dB too loud',
      '> 6 dB',
      'worst',
      '≥ 40 ms more than 6 dB too soft',
      'not heard',
      'heard after: median / most',
    ),
  );
  const track = await spokenTrack({ voice: VOICES[0]!, pauseMs: PAUSE_MS });
  for (const sender of Object.values(SENDERS)) {
    const said = await sayForEntries(codecs, sender, track);
    for (const entry of ENTRIES) {
      signal.throwIfAborted();
      const errors = await hearEntries(codecs, entry, said);
      const { words, loud3, loud6, worstDb, soft, missing, lateMs } = countEntries(errors);
      const worst = `${worstDb.toFixed(1)} dB`;
      const late = `${lateMs.median.toFixed(0)} / ${lateMs.most.toFixed(0)} ms`;
      say(row(entry.name, sender.name, words, loud3, loud6, worst, soft, missing, late));
    }
  }
}
