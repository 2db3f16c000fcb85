import type { AudioFormat, Delivery } from '../../src/audio/format.ts';

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };

/** Format and delivery in which a listener hears a room. */
export type Subscription = { name: string; format: AudioFormat; delivery?: Delivery };

export const AS_SAMPLES: Subscription = { name: 'mixed, PCM', format: PCM };
export const AS_SENT: Subscription = { name: 'as sent', format: OPUS };
const APART: Subscription = { name: '`forward`', format: OPUS, delivery: 'forward' };
export const HEARINGS = [AS_SAMPLES, AS_SENT, APART];

/** The speakers of the bench: a man and a woman of espeak-ng. */
export const VOICES = ['en-us', 'en-us+f3'];

/** Returns one line of a table. */
export const row = (...cells: (string | number)[]) => `| ${cells.join(' | ')} |\n`;

/** Returns the first two lines of a table. */
export const head = (...cells: string[]) => `\n${row(...cells)}${row(...cells.map(() => '---'))}`;

/** Columns of the cells that {@link errorCells} returns. */
export const ERROR_COLUMNS = [
  'words',
  'begin > 3 dB too loud',
  '> 6 dB',
  'worst',
  '≥ 40 ms more than 6 dB too soft',
  'not heard',
];

/** Numbers of words, and of those with an error of each kind. */
type WordErrors = Record<'words' | 'loud3' | 'loud6' | 'worstDb' | 'soft' | 'missing', number>;

/** Returns the cells of the errors of some words. */
export const errorCells = ({ words, loud3, loud6, worstDb, soft, missing }: WordErrors) => [
  words,
  loud3,
  loud6,
  `${worstDb.toFixed(1)} dB`,
  soft,
  missing,
];
