import type { EventEmitter } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AttackContext } from './attack.ts';

/** Connections that attacks make over TCP. */

/** Time between two attempts to connect, ms. */
export const CONNECT_AGAIN_MS = 20;
/** Bytes without an acknowledgement from which an attacker waits. */
export const MAX_UNSENT_BYTES = 256 * 1024;

/** Connections of one stranger: more than the gateway takes from one address (`CONNECTIONS_PER_ADDRESS`). */
export const IDLE_CONNECTIONS = 1200;
/** Number of strangers whose connections stay below the file descriptors of one process. */
export const MOST_STRANGERS = 6;

/** Interval at which connections that are kept open are looked at, and of the bytes of those that are kept waiting, ms. */
const LOOK_EVERY_MS = 1000;
const BYTE = Buffer.from('x');

export const turn = () => new Promise(setImmediate);
export const isLost = (socket: Socket) => socket.destroyed || !socket.writable;

/** Resolves at the first of some events. Node's `once` would reject if an error comes before. */
export const anyOf = (emitter: EventEmitter, ...events: string[]) =>
  new Promise<void>((resolve) => {
    for (const event of events) emitter.once(event, () => resolve());
  });

/** Opens a TCP connection, which is counted, and resolves when it is open or refused. */
export async function openTcp({ noteConnection }: AttackContext, host: string, port: number) {
  const socket = connectTcp({ host, port });
  socket.on('connect', noteConnection);
  // 'close' follows.
  socket.on('error', () => {});
  await anyOf(socket, 'connect', 'close');
  return socket;
}

/** Keeps many connections open, with a byte a second on each, and opens those again that the server ends. */
export const keepWaiting = (context: AttackContext, count: number, open: () => Promise<Socket>) =>
  keepOpen(context, count, open, (socket) => {
    socket.write(BYTE, (fault) => {
      if (!fault) context.noteSent(1, BYTE.length);
    });
  });

/**
 * Keeps many connections open, and opens those again that the server ends.
 * @param eachSecond called with each connection every second
 */
export async function keepOpen(
  context: AttackContext,
  count: number,
  open: () => Promise<Socket>,
  eachSecond: (socket: Socket) => void = () => {},
): Promise<() => Promise<void>> {
  const openAll = (places: number) => Promise.all(Array.from({ length: places }, open));
  let sockets = await openAll(count);
  return async () => {
    while (!context.isOver()) {
      for (const socket of sockets) eachSecond(socket);
      await sleep(LOOK_EVERY_MS);
      const kept = sockets.filter((socket) => !isLost(socket));
      sockets = [...kept, ...(await openAll(count - kept.length))];
    }
    for (const socket of sockets) socket.destroy();
  };
}
