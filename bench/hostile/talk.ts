import type { WebSocket } from 'ws';

/** Peers that talk in the attackers' room, where an attack needs some. */
export const SPEAKERS = ['ada', 'bob'];

const FRAME_MS = 20;
/** Offset between the positions of two peers in `packets`, so that no two send the same packet at once. */
const PEER_PACKETS = 1000;

/** Sends Opus packets of 20 ms in real time over each connection, until the timer is cleared. */
export function talk(sockets: WebSocket[], packets: Buffer[]): NodeJS.Timeout {
  const startMs = performance.now();
  let frame = 0;
  return setInterval(() => {
    for (; startMs + frame * FRAME_MS <= performance.now(); frame += 1) {
      for (const [index, socket] of sockets.entries())
        socket.send(packets[(frame + index * PEER_PACKETS) % packets.length]!);
    }
  }, 2);
}
