import { expect, test } from 'vitest';
import { GroupHealth } from '../../../src/processes/group-health.ts';
import { processOf } from '../../../src/processes/other-processes.ts';
import { ProcessStates, type ToldStates } from '../../../src/processes/process-states.ts';

const ROOMS = Array.from({ length: 1000 }, (_, index) => `1:room ${index}`);

test('processOf: the same process whatever the order, and about as many rooms in each', () => {
  const homes = ROOMS.map((room) => processOf(room, [0, 1, 2, 3]));
  expect(ROOMS.map((room) => processOf(room, [3, 1, 0, 2]))).toEqual(homes);
  for (const process of [0, 1, 2, 3]) {
    const rooms = homes.filter((home) => home === process).length;
    expect(rooms).toBeGreaterThan(200);
    expect(rooms).toBeLessThan(300);
  }
});

test('processOf: when a process goes, only its rooms have another home', () => {
  const moved = ROOMS.filter(
    (room) => processOf(room, [0, 1, 2, 3]) !== processOf(room, [0, 1, 3]),
  );
  expect(moved).toEqual(ROOMS.filter((room) => processOf(room, [0, 1, 2, 3]) === 2));
});

test('processOf: nowhere, when no process takes clients', () => {
  expect(processOf('1:a', [])).toBeUndefined();
});

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

test('GroupHealth: the processes that the supervisor names hang, and the supervisor when it names none any more', () => {
  const health = new GroupHealth();
  expect(health).toMatchObject({ hung: [], deaths: 0 });
  health.heard({ hung: ['gateway 1'], deaths: 2 });
  expect(health).toMatchObject({ hung: ['gateway 1'], deaths: 2 });
  for (let beats = 0; beats < 10; beats += 1) health.beat();
  expect(health.hung).toEqual(['gateway 1']);
  health.beat();
  expect(health.hung).toEqual(['gateway 1', 'supervisor']);
  health.heard({ hung: [], deaths: 3 });
  expect(health).toMatchObject({ hung: [], deaths: 3 });
});
