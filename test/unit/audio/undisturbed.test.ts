import { expect, test } from 'vitest';
import { undisturbed } from '../../support/listening.ts';

/** Far longer than any stall of the machine in which an attempt takes no time. */
const LONG_MS = 60_000;

test('an attempt that waited for another process is made again, and the one that did not is taken', async () => {
  const taken = await undisturbed(async (number, note) => {
    note(number === 1 ? LONG_MS : 0);
    note(1);
    return number;
  });
  expect(taken).toBeGreaterThan(1);
});

test('a fault of every attempt is thrown, however long each waited', async () => {
  const attempts = undisturbed(async (_number, note) => {
    note(LONG_MS);
    throw new Error('not heard');
  });
  await expect(attempts).rejects.toThrow('not heard');
});
