import type { SoundSettings } from './room-audio.ts';
import type { AudioAssets } from './state.ts';
import type { Ways } from './ways.ts';

export const LOBBY = '__lobby__';

/** Settings that end with a session: what it was told, and has refused. */
export const UNTOLD = { toldMuted: false, answeredMuted: false, refusal: undefined };

/** Credentials that resume a session on another connection. */
export type Resumption = { session_id: string; resume_token: string };

/** Parts that a session is opened with. */
export type SessionParts = {
  /** Our own name. */
  self: string;
  /** The address of a connection, asked for at each attempt. */
  getAddress: (resumption: Resumption | undefined) => Promise<URL>;
  ways: Ways;
  settings: SoundSettings;
  assets: AudioAssets;
  handlers: {
    /** The phase, or something in its room, is not what it was. */
    changed: () => void;
    fault: (message: string) => void;
    playbackBlocked: () => void;
  };
};
