import { describe, expect, test } from 'vitest';
import { mayComeBackAfterClose } from '../../../src/session/resumable.ts';

describe('mayComeBackAfterClose()', () => {
  test.each([1000, 1001, 1005, 3000, 4000, 4999])('%i is meant: it does not come back', (code) => {
    expect(mayComeBackAfterClose(code)).toBe(false);
  });

  test.each([1002, 1006, 1011, 4408])('%i is a lost connection: it may', (code) => {
    expect(mayComeBackAfterClose(code)).toBe(true);
  });
});
