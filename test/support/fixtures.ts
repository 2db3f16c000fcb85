import { readFileSync } from 'node:fs';

/** Reads one of the recordings in test/fixtures/formats; its README says what they are. */
export const readFixture = (name: string): Buffer =>
  readFileSync(new URL(`../fixtures/formats/${name}`, import.meta.url));
