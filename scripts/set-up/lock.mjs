/**
 * Keeps two set-ups on one machine from doing the same work at once. The lock is a listening socket
 * in Linux's abstract namespace: it has no file, so it ends with the process that holds it, however
 * that ends, and nothing stale stays behind.
 */
import { createHash } from 'node:crypto';
import { connect, createServer } from 'node:net';
import { print } from './log.mjs';

/**
 * @template T
 * @param {string} name what only one set-up at a time may do, e.g. `apt`
 * @param {() => Promise<T>} work looks first whether the set-up it waited for has done it
 * @returns {Promise<T>}
 */
export async function exclusively(name, work) {
  const release = await acquire(name);
  try {
    return await work();
  } finally {
    release();
  }
}

/** @param {string} name */
async function acquire(name) {
  // Abstract names are limited to 107 bytes, and a lock's name may hold a path: hence the hash.
  const address = `\0partyline-${createHash('sha256').update(name).digest('hex')}`;
  let waiting = false;
  for (;;) {
    const release = await hold(address);
    if (release) return release;
    if (!waiting) print('set-up', 'waiting for another one to finish the same step');
    waiting = true;
    await released(address);
  }
}

/**
 * @param {string} address
 * @returns {Promise<(() => void) | undefined>} undefined while somebody else holds it
 */
function hold(address) {
  /** @type {Set<import('node:net').Socket>} */
  const waiters = new Set();
  const server = createServer((waiter) => {
    waiters.add(waiter);
    waiter.on('error', () => waiter.destroy()); // It gave up waiting.
    waiter.once('close', () => waiters.delete(waiter));
  });
  return new Promise((resolve, reject) => {
    server.once('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      if (error.code === 'EADDRINUSE') resolve(undefined);
      else reject(error);
    });
    server.listen(address, () => {
      resolve(() => {
        server.close();
        for (const waiter of waiters) waiter.destroy();
      });
    });
  });
}

/**
 * @param {string} address
 * @returns {Promise<void>} when its holder lets go of it or ends
 */
function released(address) {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.once('error', () => resolve()); // It let go in the meantime.
    socket.once('close', () => resolve());
    socket.resume();
  });
}
