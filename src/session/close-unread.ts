import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';

/** Maximum number of bytes that are discarded: more than a client that stops at once has in flight. */
const MAX_DISCARDED_BYTES = 128 * 1024;

/**
 * Closes a connection with a code and a reason, and ignores everything that its client sends from then on. A client
 * that was not read for a while has megabytes in flight: handling them message by message, up to the answer to the
 * close, would block the event loop for a tenth of a second, and so would reading the megabytes of hundreds of
 * clients. The first bytes are read and discarded, so that a client that closes at once is noticed; the rest stays unread until ws
 * destroys the connection, when its time for an answer is over. The gateway half-closes the connection after the close frame, so
 * that the client notices the end at once.
 * @param stream stream that `socket` reads from and writes to
 */
export function closeUnread(socket: WebSocket, stream: Duplex, code: number, reason: string): void {
  socket.close(code, reason);
  // Listeners of ws, which would read the messages.
  stream.removeAllListeners('data');
  let leftBytes = MAX_DISCARDED_BYTES;
  stream.on('data', (chunk: Buffer) => {
    leftBytes -= chunk.length;
    if (leftBytes <= 0) stream.pause();
  });
  // Otherwise ws would read the rest, from the middle of a message.
  stream.prependOnceListener('close', () => void stream.read());
  stream.resume();
  stream.end();
}
