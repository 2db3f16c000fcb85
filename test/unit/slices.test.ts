import { expect, test } from 'vitest';
import { Slices } from '../../src/slices.ts';

const turn = () => new Promise(setImmediate);
const faultless = (fault: unknown) => {
  throw fault;
};

/** Slices on a clock that each task moves on by a millisecond. */
function openSlices(onFault: (fault: unknown) => void = faultless) {
  let nowMs = 0;
  const done: string[] = [];
  const slices = new Slices(onFault, () => nowMs);
  const task = (name: string) => () => {
    nowMs += 1;
    done.push(name);
  };
  return { slices, done, task };
}

test('add() runs nothing at once, and a few milliseconds of work in each turn of the event loop', async () => {
  const { slices, done, task } = openSlices();
  const owner = {};
  for (let i = 0; i < 7; i += 1) slices.add(owner, task(String(i)));
  expect(done).toEqual([]);
  await turn();
  expect(done).toEqual(['0', '1', '2']);
  await turn();
  await turn();
  expect(done).toEqual(['0', '1', '2', '3', '4', '5', '6']);
});

test('owners take turns, however much one of them has to do', async () => {
  const { slices, done, task } = openSlices();
  const [large, small] = [{}, {}];
  for (let i = 0; i < 100; i += 1) slices.add(large, task('large'));
  slices.add(small, task('small'));
  await turn();
  expect(done).toEqual(['large', 'small', 'large']);
});

test('a task that fails is told, and the others are done', async () => {
  const faults: unknown[] = [];
  const { slices, done, task } = openSlices((fault) => faults.push(fault));
  const owner = {};
  const failing = () => {
    throw new Error('at once');
  };
  slices.add(owner, failing);
  slices.add(owner, () => Promise.reject(new Error('later')));
  slices.add(owner, task('done'));
  await turn();
  await turn();
  expect(done).toEqual(['done']);
  expect(faults.map(String)).toEqual(['Error: at once', 'Error: later']);
});

test('no more than 16 asynchronous tasks of an owner are under way at once, and others do not wait for them', async () => {
  const { slices, done, task } = openSlices();
  const finish: (() => void)[] = [];
  const owner = {};
  for (let i = 0; i < 20; i += 1) {
    slices.add(owner, () => new Promise<void>((resolve) => finish.push(resolve)));
  }
  await turn();
  await turn();
  expect(finish).toHaveLength(16);
  slices.add({}, task('of another'));
  await turn();
  expect(done).toEqual(['of another']);
  finish[0]!();
  await turn();
  await turn();
  expect(finish).toHaveLength(17);
});
