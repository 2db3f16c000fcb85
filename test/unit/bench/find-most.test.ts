import { expect, test } from 'vitest';
import { findMost } from '../../../bench/find-most.ts';

/** A subject that bears up to `most`. */
function bears(most: number) {
  const tried: number[] = [];
  const lossOf = (load: number) => {
    tried.push(load);
    return Promise.resolve(load > most ? 'lost' : undefined);
  };
  return { tried, lossOf };
}

test('the highest load is found within ten per cent', async () => {
  for (const bearable of [7, 50, 133, 399]) {
    const { tried, lossOf } = bears(bearable);
    const { borne, failed } = await findMost({ load: 6, loss: undefined }, 400, lossOf);
    expect(borne).toBeLessThanOrEqual(bearable);
    expect(failed?.at).toBeGreaterThan(bearable);
    expect(failed!.at - borne).toBeLessThanOrEqual(Math.max(1, failed!.at / 10));
    expect(failed?.loss).toBe('lost');
    expect(tried.length).toBeLessThan(12);
  }
});

test('no failure is claimed where none was measured', async () => {
  const { tried, lossOf } = bears(1000);
  const most = await findMost({ load: 12, loss: undefined }, 84, lossOf);
  expect(most).toEqual({ borne: 84, failed: undefined });
  expect(tried).toEqual([24, 48, 84]);
});

test('a first load that was not borne is no lower bound', async () => {
  const { lossOf } = bears(3);
  expect(await findMost({ load: 12, loss: 'lost' }, 84, lossOf)).toEqual({
    borne: 3,
    failed: { at: 4, loss: 'lost' },
  });
  const none = bears(0);
  const { borne, failed } = await findMost({ load: 12, loss: 'lost' }, 84, none.lossOf);
  expect([borne, failed?.at]).toEqual([0, 1]);
});
