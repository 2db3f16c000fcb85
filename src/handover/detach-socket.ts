import type { Socket } from 'node:net';

/**
 * Undocumented properties of Node's socket that are used here; a test hands connections over while data is written to them.
 */
type Internals = { _handle: { readStop(): number } | null; server?: unknown };

/**
 * Prepares a connection for being sent to another process. Without this Node goes on reading while the connection is
 * on its way and loses what it reads, and the server waits at its close for the other process to close the
 * connection.
 * @returns false if it has been closed
 */
export function detachSocket(connection: Socket): boolean {
  const internals = connection as unknown as Internals;
  // oxlint-disable-next-line no-underscore-dangle -- its name
  const { _handle: handle } = internals;
  if (!handle) return false;
  handle.readStop();
  internals.server = undefined;
  return true;
}
