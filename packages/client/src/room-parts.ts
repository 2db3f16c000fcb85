import type { Connection, MessageOf } from './connection.ts';
import type { AudioParts, RoomAudio, SoundSettings } from './room-audio.ts';
import type { AudioAssets } from './state.ts';

export type Joined = MessageOf<'joined'>;
export type OpenAudio = (parts: AudioParts) => RoomAudio;

type RoomHandlers = {
  /**
   * Called when the peers, the speakers or the audio tracks have changed, or when audio has started or
   * stopped flowing.
   */
  changed: () => void;
  /** Called when the gateway has reported on the flow of audio, so that the result of `health()` may have changed. */
  flowChanged: () => void;
  fault: (message: string) => void;
  playbackBlocked: () => void;
  /** Called when the audio cannot be restored, or cannot be opened after a change of transport: the room must be joined again. */
  mediaLost: (reason: string) => void;
};

/** Parts with which a room is opened. */
export type RoomParts = {
  /** Name of the local peer, which `joined.peers` does not include. */
  self: string;
  connection: Connection;
  joined: Joined;
  openAudio: OpenAudio;
  settings: SoundSettings;
  assets: AudioAssets;
  handlers: RoomHandlers;
};
