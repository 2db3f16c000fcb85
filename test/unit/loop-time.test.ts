import { expect, test } from 'vitest';
import { LoopTime } from '../../src/loop-time.ts';
import { FairScheduler } from '../../src/session/turns.ts';
import { Slices } from '../../src/slices.ts';

const PIECE_MS = 0.5;
const PIECES = 100;

/** Four that work in slices, as in a gateway, on a clock that each piece of work moves on. */
function openFour() {
  let nowMs = 0;
  const now = () => nowMs;
  const time = new LoopTime();
  const fail = (fault: unknown) => {
    throw fault;
  };
  const turns = [new FairScheduler(time, now), new FairScheduler(time, now)];
  const slices = [new Slices(fail, now, time), new Slices(fail, now, time)];
  const done = [0, 0, 0, 0];
  const piece = (part: number) => () => {
    nowMs += PIECE_MS;
    done[part]! += 1;
  };
  const adders = [
    ...turns.map((each, part) => () => each.take(1, piece(part))),
    ...slices.map((each, part) => () => each.add(each, piece(turns.length + part))),
  ];
  return { adders, done, now };
}

/** Returns the work done in each turn of the event loop until all is done, ms. */
async function workPerTurn({ done, now }: ReturnType<typeof openFour>, pieces: number) {
  const workMs: number[] = [];
  while (done.reduce((sum, each) => sum + each, 0) < pieces) {
    const beforeMs = now();
    await new Promise(setImmediate);
    workMs.push(now() - beforeMs);
  }
  return workMs;
}

test('four that have much to do together take 6 ms of a turn of the event loop and a piece each, and all get on', async () => {
  const four = openFour();
  for (let n = 0; n < PIECES; n += 1) for (const add of four.adders) add();
  const beganAtOnce = four.done.reduce((sum, each) => sum + each, 0);
  const workMs = await workPerTurn(four, 4 * PIECES);
  expect(Math.max(...workMs)).toBeLessThanOrEqual(6 + 4 * PIECE_MS);
  expect(beganAtOnce * PIECE_MS).toBeLessThanOrEqual(8);
  expect(four.done).toEqual([PIECES, PIECES, PIECES, PIECES]);
});

test('one that is alone takes its whole slice, also after others have been busy', async () => {
  const four = openFour();
  const [addRead, , addWork] = four.adders;
  for (let n = 0; n < PIECES; n += 1) addWork!();
  await workPerTurn(four, PIECES);
  for (let n = 0; n < PIECES; n += 1) addRead!();
  const workMs = await workPerTurn(four, 2 * PIECES);
  expect(workMs[1]).toBe(4);
});
