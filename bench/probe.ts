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
 * Module loaded into the gateway before its own code (`node --import`): measures how long packets stay inside, and how late the event
 * loop is. It wraps methods of the sockets, so that the code of the gateway is unchanged. CPU is measured in another run, without it.
 */

const BETWEEN_COLLECTIONS_MS = 100;

const cameNs = new Map<string, bigint>();
const inside = createHistogram();
const loopDelay = new LoopDelay();

/** Returns heap and external memory after two garbage collections: the first one only finds the buffers that are no longer used. */
async function heapBytes(): Promise<number> {
  // Attackers may send any number of different packets; the memory for their times is not that of
  // the gateway.
  cameNs.clear();
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  await new Promise((resolve) => setTimeout(resolve, BETWEEN_COLLECTIONS_MS));
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** Returns a method as it is before it is wrapped. */
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

// The gateway writes sound to the socket itself, not by ws (src/session/send-queue.ts).
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
