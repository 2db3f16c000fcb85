import { Socket } from 'node:net';
import { createHistogram } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { WebSocket } from 'ws';
import { LoopDelay } from './loop-delay.ts';
import { packetKey } from './packets.ts';
import { percentilesOf } from './percentiles.ts';
import type { ProbeReport } from './probe-report.ts';

/**
 * Loaded into the gateway before its own code (`node --import`), to see what cannot be seen from outside: how long a
 * packet is inside. It wraps the sockets' methods, so the gateway's code is what it is without; CPU is measured in
 * another run.
 */

const BETWEEN_COLLECTIONS_MS = 100;

const cameNs = new Map<string, bigint>();
const inside = createHistogram();
const loopDelay = new LoopDelay();

/** Heap and external memory after a garbage collection, and one more: the first only finds out which buffers nobody has. */
async function heapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  await new Promise((resolve) => setTimeout(resolve, BETWEEN_COLLECTIONS_MS));
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** A method as it is now, to be called on another object later. */
function methodOf(prototype: object, name: string): Method {
  return Reflect.get(prototype, name) as Method;
}

const emit = methodOf(WebSocket.prototype, 'emit');
const write = methodOf(Socket.prototype, 'write');

WebSocket.prototype.emit = function (event: string | symbol, ...args: unknown[]): boolean {
  const [data, isBinary] = args;
  if (event === 'message' && isBinary === true) {
    const key = packetKey(data as Buffer);
    if (key) cameNs.set(key, process.hrtime.bigint());
  }
  return emit.call(this, event, ...args) as boolean;
};

// Sound does not go out by ws (src/session/send-queue.ts).
Socket.prototype.write = function (this: Socket, ...args: unknown[]): boolean {
  const isTaken = write.call(this, ...args) as boolean;
  const [data] = args;
  const key = Buffer.isBuffer(data) ? packetKey(data) : undefined;
  const atNs = key && cameNs.get(key);
  if (atNs) inside.record(process.hrtime.bigint() - atNs);
  return isTaken;
};

process.on('message', (message) => {
  if (message === 'reset') {
    inside.reset();
    loopDelay.start();
    return;
  }
  if (message === 'heap') {
    void heapBytes().then((bytes) => process.send?.(bytes));
    return;
  }
  const report: ProbeReport = {
    inside: percentilesOf(inside),
    loopDelayP99Ms: loopDelay.p99Ms,
  };
  process.send?.(report);
});
// The gateway must be able to end.
process.channel?.unref();
