import type { Codecs } from '../../src/audio/codecs.ts';
import { countEntries, ENTRIES, hearEntries, sayForEntries } from '../../test/support/entries.ts';
import type { EntryError } from '../../test/support/heard-words.ts';
import { hearBehindRouter } from '../../test/support/behind-router.ts';
import { SENDERS } from '../../test/support/senders.ts';
import { spokenTrack } from '../../test/support/speech.ts';
import { ERROR_COLUMNS, errorCells, head, row, VOICES } from './setting.ts';

const PAUSE_MS = 900;
/** Entries of listeners behind the router: browsers, and other nodes. */
const ROUTED = [
  ['unmuted', 'speaker unmuted, behind the router'],
  ['new', 'joins behind a router that had no listener, or media worker replaced'],
] as const;

/**
 * Reports words as heard from their middle on, by a listener that joins then, changes its formats, or hears a
 * speaker that is unmuted.
 */
export async function reportEntries(
  codecs: Codecs,
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  print(head('in mid-word', 'sender', ...ERROR_COLUMNS, 'heard after: median / most'));
  const track = await spokenTrack({ voice: VOICES[0]!, pauseMs: PAUSE_MS });
  for (const sender of Object.values(SENDERS)) {
    const said = await sayForEntries(codecs, sender, track);
    for (const entry of ENTRIES) {
      signal.throwIfAborted();
      print(lineOf(entry.name, sender.name, await hearEntries(codecs, entry, said)));
    }
    for (const [entry, name] of ROUTED) {
      signal.throwIfAborted();
      print(lineOf(name, sender.name, await hearBehindRouter(codecs, entry, said)));
    }
  }
}

function lineOf(entry: string, sender: string, errors: EntryError[]): string {
  const counts = countEntries(errors);
  const { lateMs } = counts;
  const late = `${lateMs.median.toFixed(0)} / ${lateMs.most.toFixed(0)} ms`;
  return row(entry, sender, ...errorCells(counts), late);
}
