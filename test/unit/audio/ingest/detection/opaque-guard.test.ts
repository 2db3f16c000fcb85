import { expect, test } from 'vitest';
import { OpaqueGuard } from '../../../../../src/audio/ingest/detection/opaque-guard.ts';
import { seededRandom } from '../../../../support/random.ts';

const MESSAGE_MS = 20;
const random = seededRandom(1);
const encrypted = (length: number) =>
  Buffer.from(Uint8Array.from({ length }, () => random() * 256));
const plain = (length: number) =>
  Buffer.from('{"type":"heartbeat","at":1234}'.repeat(length).slice(0, length));

/** Returns the number of looks that tell of other content. */
function countOthers(guard: OpaqueGuard, messages: readonly Buffer[], fromMs = 0): number {
  return messages.filter(
    (message, i) => guard.look(message, 0, fromMs + i * MESSAGE_MS) === 'other_content',
  ).length;
}

const during = (ms: number, make: (i: number) => Buffer) =>
  Array.from({ length: ms / MESSAGE_MS }, (_, i) => make(i));

test('a long message of other content every 500 ms for a minute: 5 alarms at once and one in 5 s at most', () => {
  const messages = during(60_000, (i) => (i % 25 === 24 ? plain(4096) : encrypted(300)));
  const others = countOthers(new OpaqueGuard(), messages);
  expect(others).toBeGreaterThan(5);
  expect(others).toBeLessThanOrEqual(5 + 12);
});

test('encrypted messages with pauses of 5 s: no alarm', () => {
  const guard = new OpaqueGuard();
  for (let fromMs = 0; fromMs < 120_000; fromMs += 6000) {
    expect(
      countOthers(
        guard,
        during(1000, () => encrypted(160)),
        fromMs,
      ),
    ).toBe(0);
  }
});

test('one heartbeat in plaintext every 5 s between encrypted messages: no alarm, and one for a change', () => {
  const guard = new OpaqueGuard();
  const messages = during(300_000, (i) => (i % 250 === 249 ? plain(300) : encrypted(300)));
  expect(countOthers(guard, messages)).toBe(0);
  expect(
    countOthers(
      guard,
      during(200, () => plain(300)),
      300_000,
    ),
  ).toBe(1);
});

test('two of three messages 20 ms apart in plaintext: not read, because a reading is less than 50 ms old', () => {
  const guard = new OpaqueGuard();
  const messages = during(12_000, (i) => (i < 300 || i % 3 === 0 ? encrypted(300) : plain(300)));
  expect(countOthers(guard, messages)).toBe(0);
});

test('a long message behind short ones of other content: not read with them', () => {
  const guard = new OpaqueGuard();
  const usual = during(20_000, (i) => (i % 12 < 11 ? encrypted(300) : encrypted(4096)));
  const heartbeat = [plain(239), encrypted(4096)];
  const messages = [...usual, ...during(1000, () => encrypted(300)), ...heartbeat];
  expect(countOthers(guard, messages)).toBe(0);
});

test('bytes of a message that change later, as in a buffer that is used again: not read', () => {
  const guard = new OpaqueGuard();
  let others = 0;
  for (let i = 0; i < 600; i += 1) {
    const message = encrypted(100);
    if (guard.look(message, 0, i * MESSAGE_MS) === 'other_content') others += 1;
    if (i > 300) message.fill(Buffer.from([0, 1]));
  }
  expect(others).toBe(0);
});

test('a short message before a pause: not read with those after it', () => {
  const guard = new OpaqueGuard();
  expect(
    countOthers(
      guard,
      during(6000, () => encrypted(300)),
    ),
  ).toBe(0);
  let others = 0;
  for (let atMs = 10_000; atMs < 50_000; atMs += 4000) {
    others += countOthers(guard, [encrypted(100), encrypted(100), encrypted(100)], atMs);
    if (guard.look(Buffer.alloc(200, Buffer.from([0, 1])), 0, atMs + 200) === 'other_content')
      others += 1;
  }
  expect(others).toBe(0);
});

test('messages that begin as equal Opus packets behind encrypted ones: one look for Opus, and no alarm', () => {
  const guard = new OpaqueGuard();
  const opus = () => Buffer.concat([Buffer.from([0x78]), plain(99)]);
  const messages = during(8000, (i) => (i < 300 ? encrypted(100) : opus()));
  const looks = messages.map((message, i) => guard.look(message, 0, i * MESSAGE_MS));
  expect(looks.slice(300).filter((look) => look !== 'as_before')).toEqual(['other_shape']);
});
