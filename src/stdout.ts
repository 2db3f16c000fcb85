/** Type of Node's standard output. A pipe, a socket and a terminal have a handle, a file has none. */
type Stdout = NodeJS.WriteStream & { _handle?: { setBlocking?(isBlocking: boolean): void } };

/**
 * Returns the standard output of this process, set so that no write to it waits for its reader, unless it is a terminal. To be called before each
 * write: the setting is one for all processes that share the pipe, and libuv clears it when it starts a child, Node when a child ends.
 */
export function unblockedStdout(): NodeJS.WriteStream {
  const stdout = process.stdout as Stdout;
  // Node has no public function for it.
  // oxlint-disable-next-line no-underscore-dangle -- its name
  if (!stdout.isTTY) stdout._handle?.setBlocking?.(false);
  return stdout;
}
