import type { Connection } from './connection.ts';
import type { Pause } from './reconnector.ts';
import type { Room } from './room.ts';
import type { ClientState } from './state.ts';

/** State of the client, with everything that is open in it. */
export type Phase =
  | Extract<ClientState, { name: 'idle' | 'connecting' | 'closed' }>
  | { name: 'lobby'; connection: Connection }
  | Joining
  | InRoom
  | {
      name: 'reconnecting';
      pause: Pause;
      wanted?: WantedRoom | undefined;
      /** Room whose audio continues without a connection. */
      kept?: Room | undefined;
    };

export type Joining = {
  name: 'joining';
  connection: Connection;
  wanted: WantedRoom;
  /** True once `join` has been sent, or if the client was not in the lobby before. While false, a `leave` is not needed. */
  isAsked: boolean;
  /** Room that the client moves away from; it stays open until the new one has been joined. */
  from?: InRoom;
};

export type InRoom = {
  name: 'in_room';
  connection: Connection;
  room: Room;
  wanted: WantedRoom;
  /** True if its audio was lost, or could not be opened, while the client was moving away from it. */
  isLost?: boolean;
};

/** Phase in which a room can be joined. */
export type JoinablePhase = Extract<Phase, { name: 'lobby' | 'in_room' | 'reconnecting' }>;

/** Room that the caller asked for, until `leave()`. The client joins it again after the connection or the media was lost. */
export type WantedRoom = {
  room: string;
  /**
   * True once the room has been joined: a failure is then reported as a change of state, not as the answer to
   * join().
   */
  hasJoined: boolean;
  /** Joins of this room in a row that failed in the browser; undefined unless the last join failed so. */
  failing: Failing | undefined;
  resolve: () => void;
  reject: (error: Error) => void;
};

/** Joins that failed; times are of `performance.now()`. */
type Failing = {
  /** Time of the first of them, later by the outages since. */
  sinceMs: number;
  /** Time at which an outage began: the next connection was due, and has not come about yet. */
  awaySinceMs?: number | undefined;
};

/** Returns the room that is open in a phase. */
export function roomOf(phase: Phase): Room | undefined {
  if (phase.name === 'joining') return phase.from?.room;
  if (phase.name === 'reconnecting') return phase.kept;
  return phase.name === 'in_room' ? phase.room : undefined;
}

/** Returns the state that a caller sees of a phase. */
export function stateOf(phase: Phase): ClientState {
  switch (phase.name) {
    case 'lobby':
      return { name: 'lobby' };
    case 'joining':
      return { name: 'joining', room: phase.wanted.room };
    case 'reconnecting': {
      const { name, pause, wanted, kept } = phase;
      // A node that is gone took its media with it, which ICE notices only seconds later.
      const hasGone = pause.reason.code === 'draining';
      const isApart = kept?.audio.transport === 'webrtc';
      const hasAudio = kept !== undefined && isApart && !kept.audio.isPathBroken && !hasGone;
      return { name, ...pause, hasAudio, ...(wanted && { room: wanted.room }) };
    }
    case 'in_room': {
      const { name: room, peers, speaking, audio, isInterrupted, isPlaybackBlocked } = phase.room;
      const { trouble } = phase.room;
      const { transport } = audio;
      const heard = { transport, isInterrupted, isPlaybackBlocked };
      const inRoom = { name: 'in_room', room, peers, speaking, ...heard } as const;
      return trouble === undefined ? inRoom : { ...inRoom, trouble };
    }
    default:
      return phase;
  }
}
