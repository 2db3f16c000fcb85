import type { SoundSettings } from './room-audio.ts';
import type { AudioAssets } from './state.ts';
import type { TransportChooser } from './transport-chooser.ts';

/** Settings that end with a session: those that it was told, and its refusal. */
export const UNTOLD = {
  toldMuted: false,
  answeredMuted: false,
  toldVolumes: undefined,
  refusal: undefined,
};

/** Credentials that resume a session on another connection. */
export type Resumption = { session_id: string; resume_token: string };

/** Parts with which a session is opened. */
export type SessionParts = {
  /** Name of the local peer. */
  self: string;
  /** Returns the address of a connection; called at each attempt. */
  getAddress: (resumption: Resumption | undefined) => Promise<URL>;
  chooser: TransportChooser;
  settings: SoundSettings;
  assets: AudioAssets;
  handlers: {
    /** Called when the phase, or something in its room, has changed. */
    changed: () => void;
    fault: (message: string) => void;
    playbackBlocked: () => void;
  };
};
