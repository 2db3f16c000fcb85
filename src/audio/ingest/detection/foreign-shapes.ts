import { AMR, BRIEFLY_COUNTED, EQUAL_TAIL, OFFSET, shapesOf, tailOf } from './message-shapes.ts';

/** Minimum length of a message that counts: the bytes of shorter ones, such as quiet noise, are too much alike. */
const LEAST_TELLING_BYTES = 12;
/** Minimum length of a frame of AMR with comfort noise. */
const AMR_NOISE_BYTES = 6;

/** Number of different messages that show a protocol; two of AMR, in which every byte is checked. */
const LEAST_DIFFERENT = 3;
const LEAST_DIFFERENT_OF_AMR = 2;
/** Number of messages whose equal last bytes, or whose equal lengths in their first bytes, are no chance. */
const LEAST_EQUAL = 8;

/** Number of last bytes by which messages are compared. */
const COMPARED_BYTES = 16;

/**
 * Minimum number of different beginnings of messages (second and third byte) for which equal last bytes show another protocol: packets of
 * a steady tone are alike from end to end.
 */
const LEAST_BEGINNINGS = 3;

/**
 * Shapes that consecutive messages have in common. A protocol around Opus, or instead of it, may begin each message with a byte that is
 * a valid head of a packet. It shows in what the same place of all its messages means.
 */
export class ForeignShapes {
  #shapes = 0;
  #messages = 0;
  #differentMessages = 0;
  #haveEqualLengths = true;
  #firstByte = 0;
  #firstBytes = 0;
  #tail = 0;
  #digest = 0;
  #digestBefore = 0;
  #beginnings = 0;
  #beginning = 0;
  #beginningBefore = 0;

  /**
   * Processes one message, which may begin the next run.
   * @returns true if it has a shape in common with all messages of the run
   */
  push(message: Buffer): boolean {
    const shapes = shapesOf(message);
    const shared = this.#shapes & this.#stillShared(message, shapes);
    const isBegun = this.#shapes !== 0;
    if (shared === 0) this.#begin(shapes);
    else this.#shapes = shared;
    const isComfortNoise = (shapes & AMR) !== 0 && message.length >= AMR_NOISE_BYTES;
    if (message.length >= LEAST_TELLING_BYTES || isComfortNoise) this.#count(message);
    return isBegun && shared !== 0;
  }

  /** True if all messages of the run are of one protocol that is not Opus. */
  get areForeign(): boolean {
    const shapes = this.#shapes;
    if ((shapes & AMR) !== 0) return this.#differentMessages >= LEAST_DIFFERENT_OF_AMR;
    if (shapes === 0 || this.#differentMessages < LEAST_DIFFERENT) return false;
    if (shapes === EQUAL_TAIL && this.#beginnings < LEAST_BEGINNINGS) return false;
    if (this.#messages >= LEAST_EQUAL) return true;
    // Packets of a steady sound begin alike, and their length may be what they begin with.
    const alike = this.#haveEqualLengths ? EQUAL_TAIL | BRIEFLY_COUNTED : EQUAL_TAIL;
    return (shapes & ~alike) !== 0;
  }

  /** True if all messages of the run have a shape of another protocol, but are too few. */
  get mayBeForeign(): boolean {
    if (this.areForeign) return false;
    // Silence in AMR is one byte a message, with comfort noise from time to time.
    return (this.#shapes & AMR) !== 0 || (this.#shapes !== 0 && this.#differentMessages > 1);
  }

  /** Returns the shapes that a message may share with the run: two are relative to its first message that counts. */
  #stillShared(message: Buffer, shapes: number): number {
    if (message.length < LEAST_TELLING_BYTES || this.#messages === 0) return shapes;
    let still = shapes;
    if (message[0] !== this.#firstByte) still &= ~OFFSET;
    if (tailOf(message) !== this.#tail) still &= ~EQUAL_TAIL;
    return still;
  }

  #begin(shapes: number): void {
    this.#shapes = shapes;
    this.#messages = 0;
    this.#differentMessages = 0;
    this.#beginnings = 0;
    this.#haveEqualLengths = true;
  }

  #count(message: Buffer): void {
    const digest = digestOf(message);
    const isFirst = this.#messages === 0;
    if (isFirst) {
      this.#firstByte = message[0]!;
      this.#firstBytes = message.length;
      this.#tail = tailOf(message);
    }
    this.#messages += 1;
    this.#countBeginning(message.readUInt16BE(1), isFirst);
    this.#haveEqualLengths &&= message.length === this.#firstBytes;
    if (!isFirst && (digest === this.#digest || digest === this.#digestBefore)) return;
    this.#differentMessages += 1;
    this.#digestBefore = isFirst ? digest : this.#digest;
    this.#digest = digest;
  }

  #countBeginning(beginning: number, isFirst: boolean): void {
    if (!isFirst && (beginning === this.#beginning || beginning === this.#beginningBefore)) return;
    this.#beginnings += 1;
    this.#beginningBefore = isFirst ? beginning : this.#beginning;
    this.#beginning = beginning;
  }
}

/** Returns a number by which different messages almost certainly differ. */
function digestOf(message: Buffer): number {
  let digest = message.length;
  for (let at = Math.max(0, message.length - COMPARED_BYTES); at < message.length; at += 1) {
    digest = (Math.imul(digest, 31) + message[at]!) | 0;
  }
  return digest;
}
