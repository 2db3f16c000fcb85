/** Sends a message to the process that has started this one, if it has opened a channel. When it dies, the kernel ends this process, too. */
export function tellParent(message: object): void {
  // Without the callback, a parent that has just died would be an uncaught exception.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
