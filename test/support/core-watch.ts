import { parentPort, workerData } from 'node:worker_threads';
import koffi from 'koffi';

/** A thread that stays on a core and looks at the time; what it notes is described in machine-stalls.ts. */

const { core, noted, everyMs } = workerData as {
  core: number;
  noted: BigInt64Array;
  everyMs: number;
};

const port = parentPort!;
const mask = Buffer.alloc(128);
mask[core >> 3] = 1 << (core & 7);
const setAffinity = koffi
  .load(null)
  .func('int sched_setaffinity(int, size_t, const uint8_t *)') as (
  thread: 0,
  size: number,
  mask: Buffer,
) => number;
// If it may not have that core, it watches those that it may have.
setAffinity(0, mask.length, mask);

let lookedNs = process.hrtime.bigint();
Atomics.store(noted, 1, lookedNs);
port.postMessage('watching');
for (;;) {
  Atomics.wait(noted, 2, 0n, everyMs);
  const nowNs = process.hrtime.bigint();
  Atomics.store(noted, 1, nowNs);
  if (nowNs - lookedNs > Atomics.load(noted, 0)) Atomics.store(noted, 0, nowNs - lookedNs);
  lookedNs = nowNs;
}
