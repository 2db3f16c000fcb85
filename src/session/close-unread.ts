import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';

/** Maximum number of bytes that are discarded: more than a client that stops at once has in flight. */
const MAX_DISCARDED_BYTES = 128 * 1024;

/**
 * Closes a connection with a code and a reason, and ignores everything that its client sends from then on. A client
 * that was not read for a while has megabytes in flight: handling them message by message, up to the answer to the
 * close, would take the event loop for a tenth of a second, and so would reading the megabytes of hundreds of
 * clients. Data that comes first is discarded, so that the end of a client that stops is seen; the rest goes with the
 * connection, which ws cuts when its time to answer is over. The gateway's side ends behind the close frame, which
 * the client is told so at once.
 * @param stream what `socket` reads from and writes to
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
