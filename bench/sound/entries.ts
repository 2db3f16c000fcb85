import { countEntries, ENTRIES, hearEntries, sayForEntries } from '../../test/support/entries.ts';
import type { EntryError } from '../../test/support/heard-words.ts';
import { hearBehindRouter } from '../../test/support/behind-router.ts';
import { SENDERS } from '../../test/support/senders.ts';
import { spokenTrack } from '../../test/support/speech.ts';
import { ERROR_COLUMNS, errorCells, head, row, type Setting, VOICES } from './setting.ts';

const PAUSE_MS = 900;
/** Senders that share a cell: decoders take longer to adapt to SILK than to CELT. */
const KINDS = [[SENDERS.pcm, SENDERS.celt], [SENDERS.browser, SENDERS.dtx], [SENDERS.long]];

/**
 * Reports words as heard from their middle on, by a listener that joins then, changes its formats, or hears a
 * speaker that is unmuted.
 */
export async function reportEntries({ codecs, print, signal }: Setting): Promise<void> {
  const columns = [...ERROR_COLUMNS, 'heard after: median', 'most'];
  print(head('in mid-word; CELT / SILK / packets of 60 ms', 'words', ...columns));
  const track = await spokenTrack({ voice: VOICES[0]!, pauseMs: PAUSE_MS });
  type Said = Awaited<ReturnType<typeof sayForEntries>>;
  const said: Said[][] = [];
  for (const senders of KINDS) {
    const ofKind: Said[] = [];
    for (const sender of senders) ofKind.push(await sayForEntries(codecs, sender, track));
    said.push(ofKind);
  }
  const report = async (name: string, hear: (said: Said) => Promise<EntryError[]>) => {
    const kinds: ReturnType<typeof countEntries>[] = [];
    for (const ofKind of said) {
      const errors: EntryError[] = [];
      for (const ofSender of ofKind) {
        signal.throwIfAborted();
        errors.push(...(await hear(ofSender)));
      }
      kinds.push(countEntries(errors));
    }
    const median = kinds.map(({ lateMs }) => Math.round(lateMs.median) || 0).join(' / ');
    const most = kinds.map(({ lateMs }) => Math.round(lateMs.most) || 0).join(' / ');
    const words = kinds.map((kind) => kind.words).join(' / ');
    print(row(name, words, ...errorCells(kinds), `${median} ms`, `${most} ms`));
  };
  for (const entry of ENTRIES) {
    await report(entry.name, (ofSender) => hearEntries(codecs, entry, ofSender));
  }
  // Listeners behind the router: browsers, and other nodes.
  await report('speaker unmuted, behind the router', (ofSender) =>
    hearBehindRouter(codecs, 'unmuted', ofSender),
  );
  await report('joins behind a router without listeners, or media worker replaced', (ofSender) =>
    hearBehindRouter(codecs, 'new', ofSender),
  );
}
