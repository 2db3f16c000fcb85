import { once } from 'node:events';
import { WebSocket } from 'ws';

const CONNECT_AT_ONCE = 16;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Takes a client into its room; resolves when it is in the room.
 * @throws {Error} if it is refused, or not in the room in time
 */
export async function connectClient(
  address: URL,
  onFrame: (frame: Buffer) => void,
): Promise<WebSocket> {
  const socket = new WebSocket(address, { perMessageDeflate: false, skipUTF8Validation: true });
  const joined = new Promise<void>((resolve) => {
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (isBinary) onFrame(data);
      else if (data.includes('"type":"joined"')) resolve();
    });
  });
  const refused = once(socket, 'close').then(([code]) => {
    throw new Error(`a client was refused with ${String(code)}`);
  });
  // If a client closes later, the missing packets show it.
  refused.catch(() => {});
  socket.on('error', () => {});
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const fail = () => reject(new Error('a client did not get into its room'));
    timer = setTimeout(fail, CONNECT_TIMEOUT_MS);
  });
  try {
    await Promise.race([joined, refused, late]);
  } catch (fault) {
    socket.terminate();
    throw fault;
  } finally {
    clearTimeout(timer);
  }
  return socket;
}

/** Place of a peer: the number of its room, and its own number in the room. */
export type Place = { room: number; peer: number };

/** Takes `peers` clients into each of `rooms` rooms, several at a time; resolves when all are in. */
export async function fillRooms(
  { rooms, peers }: { rooms: number; peers: number },
  enter: (place: Place) => Promise<void>,
): Promise<void> {
  const places = Array.from({ length: rooms * peers }, (_, index) => ({
    room: Math.floor(index / peers),
    peer: index % peers,
  }));
  const waiting = places.values();
  const enterRest = async () => {
    for (const place of waiting) await enter(place);
  };
  await Promise.all(Array.from({ length: CONNECT_AT_ONCE }, enterRest));
}
