import { expect, test } from 'vitest';
import { MessageTracker } from '../../../src/handover/message-tracker.ts';
import { seededRandom } from '../../support/random.ts';
import { clientFrame } from '../../support/raw-client.ts';

const PING = 9;
const PONG = 10;
const CONTINUATION = 0;

/** Messages with what comes between them: each ends where the next begins. */
const messages = [
  clientFrame('{"type":"join"}'),
  clientFrame(Buffer.alloc(0)),
  clientFrame(Buffer.alloc(125, 1)),
  clientFrame(Buffer.alloc(126, 2)),
  clientFrame('', { opcode: PING }),
  clientFrame(Buffer.alloc(65_535, 3)),
  Buffer.concat([
    clientFrame('in ', { isFinal: false }),
    clientFrame('still there?', { opcode: PING }),
    clientFrame('three ', { opcode: CONTINUATION, isFinal: false }),
    clientFrame('parts', { opcode: CONTINUATION }),
  ]),
  clientFrame(Buffer.alloc(65_536, 4)),
  clientFrame(Buffer.alloc(80, 5)),
];

test('push: true until more is held than a message may have, however it comes', () => {
  const unfinished = new MessageTracker();
  const pong = clientFrame('', { opcode: PONG });
  expect(unfinished.push(clientFrame('begun', { isFinal: false }))).toBe(true);
  let bytes = 0;
  while (unfinished.push(pong)) bytes += pong.length;
  expect(bytes).toBeGreaterThan(64 * 1024);
  expect(bytes).toBeLessThan(256 * 1024);
});

test('bytes: what has come of the message that is not whole, wherever the stream is cut', () => {
  const random = seededRandom(1);
  const stream = Buffer.concat(messages);
  const ends = messages.map((_, index) => Buffer.concat(messages.slice(0, index + 1)).length);
  for (let run = 0; run < 200; run += 1) {
    const unfinished = new MessageTracker();
    let at = 0;
    while (at < stream.length) {
      // Now a byte or two, now many messages.
      const next = Math.min(stream.length, at + Math.ceil(2 ** (17 * random())));
      unfinished.push(stream.subarray(at, next));
      at = next;
      const begin = Math.max(0, ...ends.filter((end) => end <= at));
      expect(unfinished.bytes.equals(stream.subarray(begin, at))).toBe(true);
    }
  }
});
