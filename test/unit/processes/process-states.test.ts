import { expect, test } from 'vitest';
import { ProcessStates, type ToldStates } from '../../../src/processes/process-states.ts';

test('ProcessStates: what changes is told, and what is told again is not', () => {
  const told: ToldStates[] = [];
  const states = new ProcessStates((now) => told.push(now));
  const tell = (change: () => void) => {
    told.length = 0;
    change();
    return told;
  };
  const both = { open: [0, 1], hung: [], deaths: 0 };
  expect(tell(() => states.alive(1, true))).toEqual([{ ...both, open: [1] }]);
  expect(tell(() => states.alive(0, true))).toEqual([both]);
  expect(tell(() => states.alive(0, true))).toEqual([]);
  const withoutFirst = { open: [1], hung: ['gateway 0'], deaths: 0 };
  expect(tell(() => states.silent(0))).toEqual([withoutFirst]);
  expect(tell(() => states.alive(0, true))).toEqual([both]);
  states.silent(0);
  expect(tell(() => states.alive(0, false))).toEqual([{ ...both, open: [1] }]);
  states.silent(0);
  expect(tell(() => states.ended(0, false))).toEqual([{ open: [1], hung: [], deaths: 1 }]);
  expect(tell(() => states.ended(1, true))).toEqual([{ open: [], hung: [], deaths: 1 }]);
});
