import type { ServerMessage } from '../../../src/protocol/messages.ts';
import type { MessageOf } from './connection.ts';
import type { RequestError } from './errors.ts';
import type { AudioAssets, Transport } from './state.ts';
import type { AudioCounters } from './stats.ts';
import type { Wire } from './wire.ts';

/** Settings of the caller, for every room and transport. The client changes them, and tells the audio that is open. */
export type SoundSettings = {
  microphone: MediaStreamTrack | null;
  muted: boolean;
  /** Gains by peer, 0 to 4; 1 for those that are not in it. */
  readonly volumes: Map<string, number>;
  /** Device id of the speakers; empty: the default ones. */
  speakerId: string;
  /** The gateway was told by `configure` that this peer is muted: that holds over both transports. */
  toldMuted: boolean;
  /** Requests that tell it so, and have no answer yet. */
  tellingMute: number;
  /** Mute that holds at the gateway by its last answer; current only while such requests are on their way. */
  answeredMuted: boolean;
  /** It is muted because the gateway said so, not by the user. */
  isMutedByGateway: boolean;
  /** Why the gateway takes no audio from this client in this session; absent while it does. */
  refusal?: string | undefined;
};

export type AudioHandlers = {
  /** `trackOf(peer)` is not what it was. */
  trackChanged: (peer: string) => void;
  /** The browser plays sound only after a click. */
  playbackBlocked: () => void;
  /** Something failed and the room goes on without it. */
  fault: (message: string) => void;
  /** `isInterrupted` may not be what it was. */
  pathChanged: () => void;
  /** The way to the gateway could not be mended. */
  lost: (error: RequestError) => void;
};

/** Parts that both kinds of audio are opened with. */
export type AudioParts = {
  joined: MessageOf<'joined'>;
  wire: Wire;
  settings: SoundSettings;
  assets: AudioAssets;
  handlers: AudioHandlers;
};

/** The sound of one stay in a room over one transport, in both directions. */
export interface RoomAudio {
  readonly transport: Transport;
  /** When it was opened, ms of `performance.now()`. */
  readonly openedMs: number;
  /** No sound goes or comes for now. */
  readonly isInterrupted: boolean;
  /** The browser neither plays nor records: it waits for a click, or for the end of a phone call. */
  readonly isStopped: boolean;
  /** The browser plays some of the sound, or all of it, only after a click. */
  readonly isPlaybackBlocked: boolean;
  /** There is a path for sound in each direction in which any is meant to go. */
  readonly hasPath: boolean;
  /** The sum of all others, where they come as one. */
  readonly mixTrack: MediaStreamTrack | undefined;
  /** Resolves when sound can go and come. @throws when the browser cannot do what the room needs */
  opened(): Promise<void>;
  /** Speaks with the microphone of the settings. @throws {RequestError} when the gateway refuses */
  applyMicrophone(): Promise<void>;
  /** Speaks, or sends silence: by that the gateway knows that sound may go this way. @throws {RequestError} */
  prove(): Promise<void>;
  /** Tells the gateway of mute and volumes what it does not know yet: this is the way of sound now. @throws {RequestError} */
  applySettings(): Promise<void>;
  /** @throws {RequestError} */
  applyMuted(): Promise<void>;
  /** @throws {RequestError} */
  applyVolume(peer: string): Promise<void>;
  /** @throws {DOMException} the browser cannot play there */
  applySpeaker(): Promise<void>;
  /** Audio of one peer, where peers come apart. */
  trackOf(peer: string): MediaStreamTrack | undefined;
  /** Takes a message that concerns the transport. */
  receive(message: ServerMessage): void;
  /** The connection is another one, to the same place in the room. */
  resume(joined: MessageOf<'joined'>): void;
  /** Plays what the browser refused to play without a click; call it in one. */
  resumePlayback(): void;
  counters(): Promise<AudioCounters>;
  /** The browser's own statistics, where it has them. */
  rtcStats(): Promise<{ send: RTCStatsReport; recv: RTCStatsReport } | undefined>;
  /** Ends everything; calls nobody. */
  close(): void;
}
