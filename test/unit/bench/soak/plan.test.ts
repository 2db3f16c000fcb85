import { expect, test } from 'vitest';
import { FAULT_KINDS, planFaults, planVisits, type Visit } from '../../../../bench/soak/plan.ts';

const faults = (seed: number, durationMs = 600_000) =>
  planFaults({ seed, durationMs, peers: 50, nodes: 2, kinds: FAULT_KINDS });
function visits(seed: number): Visit[] {
  const plan = planVisits(seed, { nodes: 2, rooms: 7, resumeMs: 15_000 });
  return Array.from({ length: 20 }, () => plan.next().value as Visit);
}

test('the same seed gives the same plan, another seed another', () => {
  expect(faults(1)).toEqual(faults(1));
  expect(faults(1)).not.toEqual(faults(2));
  expect(visits(1)).toEqual(visits(1));
  expect(visits(1)).not.toEqual(visits(2));
});

test('every kind of fault comes, in a minute as in ten', () => {
  for (const durationMs of [66_000, 600_000]) {
    expect(new Set(faults(3, durationMs).map(({ kind }) => kind))).toEqual(new Set(FAULT_KINDS));
  }
});

test('the first node is never ended, so that its memory can be watched', () => {
  const ended = faults(4).filter(({ kind }) => kind.startsWith('gateway-'));
  expect(ended.length).toBeGreaterThan(2);
  expect(ended.every(({ node }) => node === 1)).toBe(true);
});
