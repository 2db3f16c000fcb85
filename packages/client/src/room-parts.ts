import type { Connection, MessageOf } from './connection.ts';
import type { RequestError } from './errors.ts';
import type { AudioParts, RoomAudio, SoundSettings } from './room-audio.ts';
import type { AudioAssets } from './state.ts';

export type Joined = MessageOf<'joined'>;
export type OpenAudio = (parts: AudioParts) => RoomAudio;

type RoomHandlers = {
  /** Someone came, went, speaks, can be heard; or sound flows, or does not. */
  changed: () => void;
  /** The gateway tells how sound does: `health()` may say something else than before. */
  flowChanged: () => void;
  fault: (message: string) => void;
  playbackBlocked: () => void;
  /** The audio's path is gone for good: the room must be joined again. */
  mediaLost: (error: RequestError) => void;
};

/** Parts that a room is opened with. */
export type RoomParts = {
  /** Our own name, which is not among the others. */
  self: string;
  connection: Connection;
  joined: Joined;
  openAudio: OpenAudio;
  settings: SoundSettings;
  assets: AudioAssets;
  handlers: RoomHandlers;
};
