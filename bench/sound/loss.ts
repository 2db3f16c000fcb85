import { decodeLossy } from '../../test/support/decode-lossy.ts';
import { windowErrors } from '../../test/support/heard-words.ts';
import { seededRandom } from '../../test/support/random.ts';
import { SENDERS, sayTrack } from '../../test/support/senders.ts';
import { soundOf } from '../../test/support/simulated-room.ts';
import { spokenTrack } from '../../test/support/speech.ts';
import { head, HEARINGS, row, type Setting } from './setting.ts';

const LOST_SHARES = [0, 0.05, 0.1, 0.2, 0.3];
/** Number of packets at the beginning that always arrive, so that all decoders know the stream. */
const FIRST_PACKETS = 20;
const AS_SENT_DB = 3;
const NOTHING = new Float32Array();

/**
 * Measures a browser that loses a share of its packets: the share of windows of its words that sound as sent,
 * and the duration of all audio.
 */
export async function reportLoss({ codecs, openRoom, print, signal }: Setting): Promise<void> {
  const ownColumns = ['libopus: within 3 dB'];
  const columns = HEARINGS.flatMap(({ name }) => [`${name}: within 3 dB`, 'length']);
  print(head('packets lost', 'said', ...ownColumns, ...columns));
  const { arrivals, reference, words } = await sayTrack(
    codecs,
    'a',
    SENDERS.browser,
    await spokenTrack({ pauseMs: 60 }),
  );
  for (const share of LOST_SHARES) {
    const random = seededRandom(5);
    const came = arrivals.filter((_, i) => i < FIRST_PACKETS || random() >= share);
    const cells = [
      asSentOf(windowErrors(reference, await decodeLossy(codecs, came), words, NOTHING)),
    ];
    for (const { format, delivery } of HEARINGS) {
      signal.throwIfAborted();
      const room = openRoom(['a']);
      const heard = room.listen('x', format, delivery);
      await room.play(came);
      room.mixer.close();
      const pieces = await soundOf(codecs, heard);
      const errors = windowErrors(reference, pieces, words, NOTHING);
      const samples = pieces.reduce((sum, { sound }) => sum + sound.length, 0);
      cells.push(asSentOf(errors), `${Math.round(samples / 48)} ms`);
    }
    print(row(`${share * 100} %`, `${arrivals.length * 20} ms`, ...cells));
  }
}

function asSentOf(errors: number[]): string {
  const asSent = errors.filter((error) => Math.abs(error) <= AS_SENT_DB);
  return `${((100 * asSent.length) / errors.length).toFixed(1)} %`;
}
