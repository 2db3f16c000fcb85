import type { Codecs } from '../../src/audio/codecs.ts';
import { countEntries, ENTRIES, hearEntries, sayForEntries } from '../../test/support/entries.ts';
import { SENDERS } from '../../test/support/senders.ts';
import { spokenTrack } from '../../test/support/speech.ts';
import { ERROR_COLUMNS, errorCells, head, row, VOICES } from './setting.ts';

const PAUSE_MS = 900;

/** How words sound from their middle on: to who joins then, changes how it hears, or hears a speaker who is unmuted. */
export async function reportEntries(
  codecs: Codecs,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  say(head('in mid-word', 'sender', ...ERROR_COLUMNS, 'heard after: median / most'));
  const track = await spokenTrack({ voice: VOICES[0]!, pauseMs: PAUSE_MS });
  for (const sender of Object.values(SENDERS)) {
    const said = await sayForEntries(codecs, sender, track);
    for (const entry of ENTRIES) {
      signal.throwIfAborted();
      const errors = await hearEntries(codecs, entry, said);
      const counts = countEntries(errors);
      const { lateMs } = counts;
      const late = `${lateMs.median.toFixed(0)} / ${lateMs.most.toFixed(0)} ms`;
      say(row(entry.name, sender.name, ...errorCells(counts), late));
    }
  }
}
