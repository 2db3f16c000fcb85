import { expect, test } from 'vitest';
import { FAULT_KINDS } from '../../bench/soak/plan.ts';
import { soak } from '../../bench/soak/soak.ts';

/** Minutes are closed up to 130 s after their end, which usage.test.ts watches. */
const TOO_LATE = 'minutes that wait to be closed';

test('peers come and go for a minute while everything breaks: nothing is left, and usage is right', async () => {
  const options = { minutes: 1.1, peers: 40, nodes: 2, seed: 1, faults: FAULT_KINDS };
  const { faults, claims } = await soak(
    { ...options, resumeMs: 5000, settleMs: 60_000 },
    () => {},
    new AbortController().signal,
  );
  expect(new Set(faults.map(({ kind }) => kind))).toEqual(new Set(FAULT_KINDS));
  expect(claims.filter(({ isOk, name }) => !isOk && name !== TOO_LATE)).toEqual([]);
}, 300_000);
