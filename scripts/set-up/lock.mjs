/**
 * Keeps two set-ups on one machine from doing the same work at once. The lock is a listening socket in Linux's
 * abstract namespace. It has no file, so the kernel removes it when the process that holds it ends in any way.
 */
import { createHash } from 'node:crypto';
import { connect, createServer } from 'node:net';
import { print } from './log.mjs';

/**
 * @template T
 * Does work while no other set-up does the same.
 * @param {string} name of the work, e.g. `apt`
 * @param {() => Promise<T>} work must first check whether another set-up has done it meanwhile
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
  // A hash, because abstract names are limited to 107 bytes, and the name of a lock may contain a
  // path.
  const address = `\0partyline-${createHash('sha256').update(name).digest('hex')}`;
  let waiting = false;
  for (;;) {
    const release = await hold(address);
    if (release) return release;
    if (!waiting) print('set-up', 'waiting for another set-up to finish this step');
    waiting = true;
    await released(address);
  }
}

/**
 * @param {string} address
 * @returns {Promise<(() => void) | undefined>} function that releases the lock; undefined while another process holds it
 */
function hold(address) {
  /** @type {Set<import('node:net').Socket>} */
  const waiters = new Set();
  const server = createServer((waiter) => {
    waiters.add(waiter);
    waiter.on('error', () => waiter.destroy()); // It no longer waits.
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
 * @returns {Promise<void>} resolves when the lock is released
 */
function released(address) {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.once('error', () => resolve()); // It was released meanwhile.
    socket.once('close', () => resolve());
    socket.resume();
  });
}
