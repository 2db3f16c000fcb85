import { EventEmitter } from 'node:events';
import { Socket } from 'node:dgram';
import { createHistogram, monitorEventLoopDelay, type RecordableHistogram } from 'node:perf_hooks';
import { WebSocket } from 'ws';
import { isRtcp } from '../src/rtp/packet.ts';
import { packetKey } from './packets.ts';
import type { ProbeReport } from './probe-report.ts';

/**
 * Loaded into the gateway before its own code (`node --import`), to see what cannot be seen from outside: how long a
 * packet is inside. It wraps the sockets' methods, so the gateway's code is what it is without; CPU is measured in
 * another run.
 */

const LOOP_RESOLUTION_MS = 1;

/** The times between a packet's coming in and its going out, found by its bytes. */
class Passage {
  readonly #cameNs = new Map<string, bigint>();
  readonly #histogram: RecordableHistogram = createHistogram();

  came(bytes: Buffer): void {
    const key = packetKey(bytes);
    if (key) this.#cameNs.set(key, process.hrtime.bigint());
  }

  went(bytes: Buffer): void {
    const key = packetKey(bytes);
    const cameNs = key && this.#cameNs.get(key);
    if (cameNs) this.#histogram.record(process.hrtime.bigint() - cameNs);
  }

  reset(): void {
    this.#histogram.reset();
  }

  report(): ProbeReport['up'] {
    if (this.#histogram.count === 0) return undefined;
    return {
      p50Ms: this.#histogram.percentile(50) / 1e6,
      p99Ms: this.#histogram.percentile(99) / 1e6,
    };
  }
}

const up = new Passage();
const down = new Passage();
const counts = { framesIn: 0, rtpOut: 0, rtpIn: 0 };
let droppedCold = 0;
const loopDelay = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** A method as it is now, to be called on another object later. */
function methodOf(prototype: object, name: string): Method {
  return Reflect.get(prototype, name) as Method;
}

const emit = methodOf(EventEmitter.prototype, 'emit');
const sendDatagram = methodOf(Socket.prototype, 'send');
const sendMessage = methodOf(WebSocket.prototype, 'send');

WebSocket.prototype.emit = function (event: string | symbol, ...args: unknown[]): boolean {
  const [data, isBinary] = args;
  if (event === 'message' && isBinary === true) {
    counts.framesIn += 1;
    up.came(data as Buffer);
  }
  return emit.call(this, event, ...args) as boolean;
};

Socket.prototype.send = function (this: Socket, ...args: unknown[]): void {
  sendDatagram.call(this, ...args);
  counts.rtpOut += 1;
  up.went(args[0] as Buffer);
} as Socket['send'];

Socket.prototype.emit = function (event: string | symbol, ...args: unknown[]): boolean {
  const datagram = args[0] as Buffer;
  if (event === 'message' && !isRtcp(datagram)) {
    counts.rtpIn += 1;
    down.came(datagram);
  }
  return emit.call(this, event, ...args) as boolean;
};

WebSocket.prototype.send = function (this: WebSocket, ...args: unknown[]): void {
  sendMessage.call(this, ...args);
  const [data] = args;
  if (Buffer.isBuffer(data)) down.went(data);
} as WebSocket['send'];

process.on('message', (message) => {
  if (message === 'reset') {
    up.reset();
    down.reset();
    // Exact at any instant: where a producer is open, a frame has gone out before the next comes in.
    droppedCold = counts.framesIn - counts.rtpOut;
    loopDelay.enable();
    loopDelay.reset();
    return;
  }
  const report: ProbeReport = {
    up: up.report(),
    down: down.report(),
    // What it measures is the time from one of its timers to the next.
    loopDelayP99Ms: Math.max(0, loopDelay.percentile(99) / 1e6 - LOOP_RESOLUTION_MS),
    counts,
    droppedCold,
  };
  process.send?.(report);
});
// The gateway must be able to end.
process.channel?.unref();
