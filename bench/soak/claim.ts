/** Condition that must hold at the end. */
export type Claim = { name: string; expected: string; found: string; isOk: boolean };

/** Returns the claim that something was found as it was wanted. */
export const claim = (name: string, expected: string, found: string, wanted: string): Claim => ({
  name,
  expected,
  found,
  isOk: found === wanted,
});

/** Returns the claim that a number has grown by no more than a tolerance. */
export const atMost = (name: string, found: number, before: number, tolerance: number): Claim => ({
  name,
  expected: tolerance === 0 ? `at most ${before}` : `at most ${before} + ${tolerance}`,
  found: String(found),
  isOk: found <= before + tolerance,
});
