import type { ServerMessage } from '../../../src/protocol/messages.ts';
import type { MessageOf } from './connection.ts';
import type { RequestError } from './errors.ts';
import type { AudioAssets, RemotePeer, Transport } from './state.ts';
import type { AudioCounters } from './stats.ts';
import type { Wire } from './wire.ts';

/** Settings of the caller, for every room and transport. The client changes them, and tells the audio that is open. */
export type SoundSettings = {
  microphone: MediaStreamTrack | null;
  muted: boolean;
  /** Gains by peer, 0 to 4 without 1; 1 for others. */
  readonly volumes: Map<string, number>;
  /** Gains that the gateway was told in this session, 1 for others, NaN where it may not know; absent if it was told none. */
  toldVolumes?: Map<string, number> | undefined;
  /** Device id of the speakers; empty: the default ones. */
  speakerId: string;
  /** Mute that the gateway was told last by `configure`, or told since; it holds over both transports. After a refusal, the one that the gateway has. */
  toldMuted: boolean;
  /** Number of `configure` requests with a mute that have no answer yet. */
  pendingMutes: number;
  /** Mute that the gateway has by its last answer or message; kept up to date only while such requests are pending. */
  answeredMuted: boolean;
  /** True if the gateway muted this peer, not the user. */
  isMutedByGateway: boolean;
  /** Reason for which the gateway refuses audio from this client in this session; absent while it accepts it. */
  refusal?: string | undefined;
};

export type AudioHandlers = {
  /** Called when `trackOf(peer)` has changed. */
  trackChanged: (peer: string) => void;
  /** Called when the browser plays audio only after a click. */
  playbackBlocked: () => void;
  /** Called when something failed that the room can do without. */
  fault: (message: string) => void;
  /** Called when `isPathBroken` may have changed. */
  pathChanged: () => void;
  /** Called when the path to the gateway could not be restored. */
  lost: (error: RequestError) => void;
};

/** Parts that both kinds of audio are opened with. */
export type AudioParts = {
  joined: MessageOf<'joined'>;
  /** Everyone else in the room at present. */
  peers: ReadonlyMap<string, RemotePeer>;
  wire: Wire;
  settings: SoundSettings;
  assets: AudioAssets;
  handlers: AudioHandlers;
};

/** Recorded audio of which nothing has been sent. */
export type UnsentAudio = {
  /** Time of its beginning, ms of `performance.now()`. */
  sinceMs: number;
  /** True if the network has refused packets of it; false if it has not been encoded. */
  isEncoded: boolean;
};

/** Audio of one stay in a room over one transport, in both directions. */
export interface RoomAudio {
  readonly transport: Transport;
  /** Time of its opening, ms of `performance.now()`. */
  readonly openedMs: number;
  /** True if the path reports a failure. */
  readonly isPathBroken: boolean;
  /** True if the browser neither plays nor records: it waits for a click, or for the end of a phone call. */
  readonly isStopped: boolean;
  /** True if the browser plays some or all of the audio, or records, only after a click. */
  readonly isPlaybackBlocked: boolean;
  /** True if there is a path in each direction in which audio must flow. */
  readonly hasPath: boolean;
  /**
   * True while a path is missing and the search for it has not begun, because the gateway has not answered the request for it. Absent if
   * the transport needs no such request.
   */
  readonly isAskingForPath?: boolean;
  /** True while the gateway has not accepted a request for a peer's audio; a refused one is repeated. Absent if the transport sends none. */
  readonly isAskingForAudio?: boolean;
  /**
   * Longest time for which a missing path has been searched for since the gateway answered the request for it, ms; 0 if none is. Absent if
   * the transport needs no such request.
   */
  readonly searchedMs?: number;
  /** Recorded audio since the last packet that was sent; undefined if there is none, or the transport does not tell. */
  readonly unsent: UnsentAudio | undefined;
  /** Sum of all others, if they come as one track. */
  readonly mixTrack: MediaStreamTrack | undefined;
  /** Resolves when audio can flow. @throws if the browser cannot do what the room needs */
  opened(): Promise<void>;
  /** Sends the microphone of the settings. @throws {RequestError} if the gateway refuses */
  applyMicrophone(): Promise<void>;
  /**
   * Sends audio or silence, by which the gateway knows that audio may take this transport.
   * @throws {RequestError}
   */
  prove(): Promise<void>;
  /**
   * Tells the gateway the mute and volumes that it does not know yet, because audio now takes this transport.
   * @throws {RequestError}
   */
  applySettings(): Promise<void>;
  /** @throws {RequestError} */
  applyMuted(): Promise<void>;
  /** Applies the volume of a peer, which has changed or whose peer has come. @throws {RequestError} */
  applyVolume(peer: string): Promise<void>;
  /** @throws {DOMException} if the browser cannot play there */
  applySpeaker(): Promise<void>;
  /** Audio of one peer, if peers have tracks of their own. */
  trackOf(peer: string): MediaStreamTrack | undefined;
  /** Handles a message about the transport. */
  receive(message: ServerMessage): void;
  /** Continues over another connection, with the same place in the room. */
  resume(joined: MessageOf<'joined'>): void;
  /** Plays audio that the browser blocked until a click; to be called in the handler of a click. */
  resumePlayback(): void;
  counters(): Promise<AudioCounters>;
  /** Number of packets received since its beginning. */
  packetsReceived(): Promise<number>;
  /** Statistics of the browser, if it has them. */
  rtcStats(): Promise<{ send: RTCStatsReport; recv: RTCStatsReport } | undefined>;
  /** Shortens the delay of what is played, if it can, for as long as `isHurried` is true: another transport is about to take over. */
  setHurried(isHurried: boolean): void;
  /** Ends what is sent and received at once, and the rest when what has been received is played. Another transport has taken over. */
  retire(): void;
  /** Ends everything; no handler is called. */
  close(): void;
}
