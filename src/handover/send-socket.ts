import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';

/** This process or a child of it: whatever has a channel. */
type Channel = Pick<ChildProcess, 'connected'> & { send?: ChildProcess['send'] };

/**
 * Sends a message with a connection, which is closed here afterwards, and closed altogether if it could not be sent. The
 * receiver takes one in each turn of its event loop, so that some may wait.
 * @param withinMs time that the receiver has to accept it, ms
 */
export function sendSocket(
  channel: Channel,
  message: object,
  connection: Socket,
  withinMs: number,
): void {
  if (!channel.connected || !channel.send) {
    connection.destroy();
    return;
  }
  const close = () => {
    clearTimeout(timer);
    connection.destroy();
  };
  // Node forgets what waits when the channel breaks.
  const timer = setTimeout(close, withinMs);
  // Without keepOpen Node keeps the connection open until the receiver confirms it: forever if the
  // receiver dies before.
  channel.send(message, connection, { keepOpen: true }, close);
}
