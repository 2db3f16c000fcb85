import { hostname } from 'node:os';
import { readFileSync } from 'node:fs';
import type { LoadLevel, LoadSample } from '../load/load-level.ts';
import type { MediaWorkerDescription } from '../media/media-worker-slot.ts';
import type { PeerKind } from '../protocol/messages.ts';
import type { PeerState } from '../rooms/members.ts';
import type { Room } from '../rooms/room.ts';
import type { NodeDescription, PeerOfNode, RoomSummary } from './schemas.ts';

/** State of this node at a moment, as its parts report it. */
export type NodeState = {
  id: string;
  isDraining: boolean;
  load: LoadSample & { level: LoadLevel };
  mediaWorkers: MediaWorkerDescription[];
  sessions: number;
  rooms: number;
  peers: Record<PeerKind, number>;
  keptPlaces: number;
  pipes: { ends: number; nodes: number };
  dropped: Record<string, number>;
};

const NAME = `${hostname()}:${process.pid}`;
const STARTED_AT = new Date(performance.timeOrigin).toISOString();
const { version } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { version: string };

/** Returns the description of this node for an operator. */
export function describeNode(state: NodeState): NodeDescription {
  const { id, load, pipes, peers, dropped, sessions, rooms } = state;
  return {
    id,
    name: NAME,
    version,
    started_at: STARTED_AT,
    state: state.isDraining ? 'draining' : 'running',
    load: {
      level: load.level,
      loop_delay_ms: load.loopDelayMs,
      cpu: { process: load.cpu.process, event_loop: load.cpu.eventLoop },
      memory_bytes: load.memoryBytes,
    },
    media_workers: state.mediaWorkers.map(({ pid, rtcPort, cpuShare, ...worker }) => ({
      ...worker,
      ...(pid !== undefined && { pid }),
      rtc_port: rtcPort,
      cpu: cpuShare,
    })),
    sessions,
    rooms,
    peers,
    kept_places: state.keptPlaces,
    pipes,
    dropped,
  };
}

/** Returns the summary of a room on this node. */
export function summarizeRoom(room: Room): RoomSummary {
  const peers = room.describePeers();
  const count = (is: (peer: PeerState) => boolean) => peers.filter(is).length;
  return {
    account_id: room.key.accountId,
    room: room.key.name,
    websocket: count(({ kind }) => kind === 'websocket'),
    webrtc: count(({ kind }) => kind === 'webrtc'),
    away: count(({ isAway }) => isAway),
    talking: count(({ isTalking }) => isTalking),
  };
}

/** Returns the peers of a room on this node. */
export function describePeers(room: Room): PeerOfNode[] {
  return room.describePeers().map(({ peer, kind, isAway, isTalking, levelDbov, audioStats }) => ({
    peer,
    kind,
    away: isAway,
    talking: isTalking,
    ...(levelDbov !== undefined && { level_dbov: levelDbov }),
    ...(audioStats && {
      audio: {
        buffered_ms: Math.round(audioStats.bufferedMs),
        drift_ppm: Math.round(audioStats.driftPpm),
        dropped_ms: Math.round(audioStats.droppedMs),
        concealed_ms: Math.round(audioStats.concealedMs),
      },
    }),
  }));
}
