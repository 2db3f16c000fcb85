import { expect, test } from 'vitest';
import { HeldAudio } from '../../../../src/audio/ingest/held-audio.ts';

/** Turns of an event loop that has time for `pieces` of work at once; the rest waits until `next`. */
class FewPieces {
  readonly #pieces: number;
  #left: number;
  #waiting: (() => void)[] = [];

  constructor(pieces: number) {
    this.#pieces = pieces;
    this.#left = pieces;
  }

  begin(): boolean {
    this.#left -= 1;
    return this.#left >= 0;
  }

  take(start: () => void): void {
    this.#waiting.push(start);
  }

  next(): void {
    this.#left = this.#pieces;
    for (const start of this.#waiting.splice(0)) start();
  }
}

/** Size as which a shorter message counts. */
const MIN_SIZE_BYTES = 128;

const message = (text: string) => ({ message: Buffer.from(text), atMs: text.charCodeAt(0) });

/** @param messageMs time that it takes to hand on a message */
function open(pieces: number, messageMs = 1) {
  const handedOn: string[] = [];
  const turns = new FewPieces(pieces);
  let nowMs = 0;
  const handOn = ({ message: bytes }: { message: Buffer }) => {
    handedOn.push(bytes.toString());
    nowMs += messageMs;
  };
  const held = new HeldAudio(handOn, turns, () => nowMs);
  return { handedOn, turns, held };
}

test('held audio is handed on in order, and no more at once than there is time for', () => {
  const { handedOn, turns, held } = open(2);
  for (const text of ['a', 'b', 'c', 'd', 'e', 'f']) held.hold(message(text));
  expect([held.bytes, held.sinceMs]).toEqual([6 * MIN_SIZE_BYTES, 'a'.charCodeAt(0)]);
  held.drain();
  expect(handedOn).toEqual(['a', 'b']);
  held.hold(message('g'));
  // Asking again changes nothing.
  held.drain();
  turns.next();
  expect(handedOn).toEqual(['a', 'b', 'c', 'd', 'e']);
  expect(held.isEmpty).toBe(false);
  turns.next();
  expect(handedOn.join('')).toBe('abcdefg');
  expect([held.isEmpty, held.bytes]).toEqual([true, 0]);
});

test('held audio of a client whose turns come seldom is handed on several messages in each, which take a millisecond', () => {
  const { handedOn, turns, held } = open(0, 0.3);
  for (const text of ['a', 'b', 'c', 'd', 'e', 'f']) held.hold(message(text));
  held.drain();
  expect(handedOn).toEqual([]);
  turns.next();
  expect(handedOn.join('')).toBe('abcd');
  turns.next();
  expect(handedOn.join('')).toBe('abcdef');
});

test('a flush hands on at once what waits for its turn, and nothing twice', () => {
  const { handedOn, turns, held } = open(1);
  for (const text of ['a', 'b', 'c']) held.hold(message(text));
  held.drain();
  held.flush();
  turns.next();
  expect(handedOn.join('')).toBe('abc');
  held.hold(message('d'));
  held.drain();
  expect(handedOn.join('')).toBe('abcd');
});

test('audio that is taken is handed on to nobody', () => {
  const { handedOn, turns, held } = open(1);
  for (const text of ['a', 'b', 'c']) held.hold(message(text));
  held.drain();
  expect(held.takeAll().map(({ message: bytes }) => bytes.toString())).toEqual(['b', 'c']);
  turns.next();
  expect(handedOn).toEqual(['a']);
});

test('audio held after everything was taken is not handed on to the same receiver', () => {
  const { handedOn, turns, held } = open(1);
  for (const text of ['a', 'b', 'c']) held.hold(message(text));
  held.drain();
  held.takeAll();
  held.hold(message('d'));
  turns.next();
  expect(handedOn).toEqual(['a']);
  held.drain();
  expect(handedOn).toEqual(['a', 'd']);
});

test('of a backlog that grows beyond a limit the oldest is handed on at once, and nothing is lost', () => {
  const { handedOn, held } = open(0);
  for (const text of ['a', 'b', 'c', 'd']) held.hold(message(text));
  held.flushDownTo(2 * MIN_SIZE_BYTES);
  expect(handedOn).toEqual(['a', 'b']);
  expect(held.bytes).toBe(2 * MIN_SIZE_BYTES);
});

test('of ten thousand messages of a byte no more wait than of messages of 128 bytes', () => {
  const { handedOn, held } = open(0);
  for (let i = 0; i < 10_000; i += 1) {
    held.hold(message('a'));
    held.flushDownTo(128 * 1024);
  }
  const waiting = held.takeAll().length;
  expect(waiting + handedOn.length).toBe(10_000);
  expect(waiting).toBe(1024);
});

test('what is held behind a mark is neither handed on nor taken until the mark is passed', () => {
  const { handedOn, turns, held } = open(1);
  held.hold(message('a'));
  held.mark();
  for (const text of ['b', 'c']) held.hold(message(text));
  held.mark();
  held.hold(message('d'));
  held.flush();
  held.flushDownTo(0);
  held.drain();
  expect([handedOn.join(''), held.takeAll().length, held.bytes]).toEqual([
    'a',
    0,
    3 * MIN_SIZE_BYTES,
  ]);
  expect(held.sinceMs).toBe('b'.charCodeAt(0));
  held.passMark();
  held.drain();
  turns.next();
  expect([handedOn.join(''), held.isEmpty]).toEqual(['abc', false]);
  held.passMark();
  held.flush();
  expect([handedOn.join(''), held.isEmpty, held.bytes]).toEqual(['abcd', true, 0]);
  held.mark();
  held.hold(message('e'));
  held.clear();
  expect([held.isEmpty, held.bytes, held.isMarked]).toEqual([true, 0, false]);
});
