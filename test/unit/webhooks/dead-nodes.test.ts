import { expect, test } from 'vitest';
import { timingsWith } from '../../../config/timings.ts';
import { DeadNodes } from '../../../src/webhooks/dead-nodes.ts';
import type { WebhookStore } from '../../../src/webhooks/webhook-store.ts';

/** A search for dead nodes, each second, beside a node that has ended and keeps places for a while. */
function watch(keepMs: number) {
  const reaped: string[] = [];
  let nowMs = 1_000_000;
  const store = {
    readDeparted: () => Promise.resolve(new Map([['ended', keepMs]])),
    readNodes: () => Promise.resolve(new Map([['ended', '1']])),
    reap: (node: string) => {
      reaped.push(node);
      return Promise.resolve();
    },
    takeOutDead: () => Promise.resolve(),
  } as unknown as WebhookStore;
  const { webhooks } = timingsWith({ webhooks: { deadAfterMs: 45_000, leaveHoldMs: 2000 } });
  const dead = new DeadNodes(store, webhooks, () => nowMs);
  const sweep = async (stepMs = 1000) => {
    nowMs += stepMs;
    await dead.sweep();
    return reaped.length > 0;
  };
  return { sweep };
}

test('a jump of the clock of Redis alone ends no place of a node that has ended', async () => {
  const { sweep } = watch(15_000);
  await sweep();
  expect(await sweep(3_600_000)).toBe(false);
  expect(await sweep()).toBe(true);
});

test('a node that has ended counts for as long as it keeps places, and for the hold of a leave', async () => {
  const { sweep } = watch(60_000);
  await sweep();
  for (let step = 1; step < 62; step += 1) expect(await sweep()).toBe(false);
  expect(await sweep()).toBe(true);
});
