import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Reading } from './read-gate.ts';
import type { Turns } from './turns.ts';

/** A chunk of this size says that more waits in the kernel: a TLS record has at most so many bytes, a read of TCP four times as many. */
const FULL_CHUNK_BYTES = 16 * 1024;

/**
 * Has what a client sends handled in turn with what others send, and no more than a chunk of it in each turn of the event
 * loop. Node alone would read up to 2 MB of each client in one turn, which is tens of thousands of messages.
 * @param stream what `socket` reads
 * @param gate stops the reading
 */
export function readInTurns(
  socket: WebSocket,
  stream: Duplex,
  { turns, accountId }: { turns: Turns; accountId: number },
  gate: Reading,
): void {
  const handle = stream.listeners('data').at(-1) as (this: Duplex, chunk: Buffer) => void;
  const waiting: Buffer[] = [];
  const deliver = (chunk: Buffer) => {
    // ws takes nothing behind a close frame, or a fault.
    if (socket.readyState === socket.OPEN) handle.call(stream, chunk);
  };
  const deliverWaiting = () => {
    for (const chunk of waiting.splice(0)) deliver(chunk);
    gate.resume();
  };
  stream.off('data', handle);
  stream.on('data', (chunk: Buffer) => {
    if (waiting.length === 0 && turns.begin()) {
      deliver(chunk);
      if (chunk.length < FULL_CHUNK_BYTES || gate.isPaused) return;
      gate.pause();
      setImmediate(() => gate.resume());
      return;
    }
    gate.pause();
    if (waiting.push(chunk) === 1) turns.take(accountId, deliverWaiting);
  });
}
