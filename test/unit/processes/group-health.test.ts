import { expect, test } from 'vitest';
import { GroupHealth } from '../../../src/processes/group-health.ts';

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
