import type { Socket } from 'node:net';

/** What of Node's socket is needed and not documented; a test passes connections on while they are written to. */
type Internals = { _handle: { readStop(): number } | null; server?: unknown };

/**
 * Readies a connection to be sent to another process. Node reads on while it is on its way, and forgets what it reads; and it
 * would wait with the closing of its server for the other process to close the connection.
 * @returns false if it has been closed
 */
export function stopReading(connection: Socket): boolean {
  const internals = connection as unknown as Internals;
  // oxlint-disable-next-line no-underscore-dangle -- its name
  const { _handle: handle } = internals;
  if (!handle) return false;
  handle.readStop();
  internals.server = undefined;
  return true;
}
