import { UnvoicedCopies } from '../../opus-packet.ts';
import { ForeignShapes } from './foreign-shapes.ts';
import type { TimedMessage } from './pace.ts';

/** Doubts whether messages that begin like packets of Opus are some. */
export type Doubts = {
  /** True if they are of another protocol. */
  isForeign: boolean;
  /** True if they are no packets of Opus as encoders make them. */
  isSealed: boolean;
  /** True while more messages may show one or the other. */
  areOpen: boolean;
};

export const NO_DOUBTS: Doubts = { isForeign: false, isSealed: false, areOpen: false };

/** Maximum number of copies of packets without voice: encoders make none, but a packet may be missing. */
const MOST_UNVOICED_COPIES = 1;

/** Maximum number of messages whose shapes are compared: more do not make the answer surer, and inflating them takes time. */
const MAX_COMPARED_MESSAGES = 64;

/** Returns the doubts about messages that all begin like packets of Opus. */
export function doubtsOf(arrivals: readonly TimedMessage[]): Doubts {
  const seemCounted = areCounted(arrivals.map(({ message }) => message));
  const shapes = shapesSharedBy(arrivals);
  const copies = unvoicedCopiesIn(arrivals);
  return {
    isForeign: shapes?.areForeign ?? false,
    isSealed: (seemCounted && arrivals.length >= LEAST_COUNTED) || copies > MOST_UNVOICED_COPIES,
    areOpen: seemCounted || copies > 0 || (shapes?.mayBeForeign ?? false),
  };
}

/** Positions after the first byte at which a counter of messages may be. */
const COUNTED_PLACES = [1, 2, 3, 4, 5, 6, 7, 8];
/** Minimum number of messages that show a counter: fewer may count by chance. */
const LEAST_COUNTED = 5;

/** True if messages are numbered after a first byte that is equal in all, as sealed frames are: one byte increases by 1 with each message. */
function areCounted(messages: readonly Buffer[]): boolean {
  const [first] = messages;
  const isCount = (place: number) =>
    messages.every((message, i) => {
      const before = messages[i - 1];
      return (
        message.length > place &&
        message[0] === first![0] &&
        (!before || message[place] === ((before[place]! + 1) & 0xff))
      );
    });
  return COUNTED_PLACES.some(isCount);
}

/** Returns the shapes of another protocol that all messages have; undefined if there is none. */
function shapesSharedBy(arrivals: readonly TimedMessage[]): ForeignShapes | undefined {
  const shapes = new ForeignShapes();
  const compared = arrivals.slice(0, MAX_COMPARED_MESSAGES);
  const areAlike = compared.every(({ message }, i) => shapes.push(message) || i === 0);
  return areAlike ? shapes : undefined;
}

/** Returns the number of packets that claim to contain a copy of one without voice. */
function unvoicedCopiesIn(arrivals: readonly TimedMessage[]): number {
  const copies = new UnvoicedCopies();
  return arrivals.filter(({ message, atMs }) => copies.push(message, atMs)).length;
}
