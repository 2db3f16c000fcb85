import { expect, test } from 'vitest';
import { clockFaultsOf } from '../../../../scripts/words/clock-faults.mjs';

test.each([
  'new Date(nowMs).toISOString()',
  'new Date(this.#sentAtMs)',
  'const nowMs = clock.wallMs();',
  'function keep(nowMs = Date.now()) {}',
  'const options = { nowMs: clock.wallMs };',
  "for (let atMs = Date.parse('2026-01-01'); ;) {}",
  'const wallMs = performance.now();',
  'const clock = { wallMs: () => nowMs };',
  'const ageMs = this.#clock.wallMs() - sentAtMs;',
  'const isDue = nowMs >= this.#dueWallMs;',
  'const ageMs = performance.now() - sentWallMs;',
  'const loggedAtMs = await clock.wallMs();',
  '/** @param nowMs ms since 1970 */',
  '/** Clock of events, ms since 1970. */\n  nowMs: () => number;',
])('refuses two clocks in %s', (code) => {
  expect(clockFaultsOf(`const a = 1;\n${code}\n`)).toMatchObject([{ line: 2 }]);
});

test('takes names of times that keep to their clock', () => {
  const text = `
/**
 * Returns the age of a use.
 * @param wallMs time of the use, ms since 1970
 * @param nowMs time of the monotonic clock, ms
 */
const nowMs = performance.now();
const wallMs = clock.wallMs();
const started = new Date(wallMs - (nowMs - sentAtMs));
const frame = { atMs: nowMs, createdWallMs: Date.parse(text) };
`;
  expect(clockFaultsOf(text)).toEqual([]);
});
