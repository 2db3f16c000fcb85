import type { NodePipe, PipedIn, PipedOut } from '../media/node-pipe.ts';
import type { LinkWatch } from './link-watch.ts';
import type { RoomEnd } from './room-end.ts';
import type { PipeEnd } from './room-state.ts';

/** This node's end of a pipe of a room, and the producers on it by id. */
export type RoomPipe = {
  own: NodePipe;
  /** The other node's end to which it is connected. */
  other: string | undefined;
  sent: Map<string, PipedOut & { peer: string }>;
  heard: Map<string, PipedIn>;
  watch: LinkWatch;
  /** Watches the link; closed with the pipe. */
  timer: NodeJS.Timeout;
};

/** Returns a description of the end for the other node. */
export function describePipe({ own, other, sent, heard }: RoomPipe, end: RoomEnd): PipeEnd {
  return {
    id: own.id,
    ip: own.address.ip,
    port: own.address.port,
    srtp_parameters: own.address.srtpParameters,
    ...(other !== undefined && { connected_to: other }),
    sends: [...sent].map(([id, { peer, rtpParameters, paused }]) => ({
      producer_id: id,
      peer,
      rtp_parameters: rtpParameters,
      paused,
      running: end.isRunning(id),
    })),
    hears: [...heard.keys()],
  };
}
