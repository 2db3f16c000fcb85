import type { Codecs } from '../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../src/audio/format.ts';
import type { OpenRoom } from '../../test/support/simulated-room.ts';

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };

/** Means of a report. */
export type Setting = {
  codecs: Codecs;
  /** Opens a room of this checkout, or of another one. */
  openRoom: OpenRoom;
  print: (text: string) => void;
  signal: AbortSignal;
};

/** Format and delivery in which a listener hears a room. */
type Subscription = { name: string; format: AudioFormat; delivery?: Delivery };

export const AS_SAMPLES: Subscription = { name: 'mixed as PCM', format: PCM };
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
  'begin > 3 dB too loud (goal: 0)',
  '> 6 dB',
  'worst',
  '≥ 40 ms more than 6 dB too soft (goal: 0)',
  'not heard (goal: 0)',
];

/** Numbers of words with an error of each kind. */
type WordErrors = Record<'loud3' | 'loud6' | 'worstDb' | 'soft' | 'missing', number>;

/** Returns the cells of the errors of some words, as several listeners hear them. */
export const errorCells = (heard: WordErrors[]): string[] => [
  heard.map(({ loud3 }) => loud3).join(' / '),
  heard.map(({ loud6 }) => loud6).join(' / '),
  `${heard.map(({ worstDb }) => worstDb.toFixed(1)).join(' / ')} dB`,
  heard.map(({ soft }) => soft).join(' / '),
  heard.map(({ missing }) => missing).join(' / '),
];

/** True if each word begins as it was said. */
export const isAsSaid = ({ loud3, soft, missing }: WordErrors) => loud3 + soft + missing === 0;

/** Returns the share of the errors that are larger than `db` in either direction. */
export const shareOver = (errors: number[], db: number) =>
  `${((100 * errors.filter((error) => Math.abs(error) > db).length) / errors.length).toFixed(2)} %`;
