import type { CloseReason } from './retry.ts';

/** State of a `PartylineClient`, as the program that uses it sees it. */

/** Transport of a client's audio: WebRTC, or the WebSocket. */
export type Transport = 'webrtc' | 'websocket';

/** Another peer in the room. */
export type RemotePeer = {
  peer: string;
  kind: Transport;
  /** True if nothing of its audio is heard. */
  muted: boolean;
  /**
   * Audio of this peer; absent until it speaks for the first time, and over the WebSocket, where all peers
   * share a track.
   */
  track?: MediaStreamTrack;
};

/** Options of a `PartylineClient`. */
export type ClientOptions = {
  /**
   * Returns a token with which `peer` may connect (`POST /api/tokens`): called for each connection, and again
   * if it takes longer than 10 s. May throw a `TokenError`.
   */
  getToken: () => Promise<string>;
  /** The name of this peer, unique within the account: a second connection with the same name replaces the first. */
  peer: string;
  /** The gateway's WebSocket endpoint; default: `/ws` on the host that this page came from. */
  url?: string | URL;
  /** The transports that may be used, the preferred one first; default: `['webrtc', 'websocket']`. */
  transports?: readonly Transport[];
  /** Addresses of the files for audio over the WebSocket, if they are not beside the module. */
  assets?: Partial<AudioAssets>;
};

/** Addresses of the package's files that run outside the page. They must be allowed by its content security policy. */
export type AudioAssets = {
  /** An AudioWorklet module: `dist/worklet.js`. */
  worklet: string | URL;
  /** A worker that decodes Opus: `dist/decoder-worker.js`. */
  decoder: string | URL;
  /** A worker that encodes Opus where the browser cannot: `dist/encoder-worker.js`. */
  encoder: string | URL;
};

/** State of the client; a field exists only in the states that have it. */
export type ClientState =
  | { name: 'idle' }
  | { name: 'connecting' }
  | { name: 'lobby' }
  | { name: 'joining'; room: string }
  | {
      name: 'in_room';
      room: string;
      /** Everyone else, by name, in the order in which they came. */
      peers: ReadonlyMap<string, RemotePeer>;
      /**
       * Peers that speak now, this client included, with levels in dBov, 0 (loudest) to −127; undefined if the level
       * is unknown.
       */
      speaking: ReadonlyMap<string, number | undefined>;
      /** Transport of the audio in both directions. */
      transport: Transport;
      /**
       * True if no audio flows for now: the path to the gateway broke and is being restored, or, over the
       * WebSocket, the browser has stopped the audio (`trouble` says which).
       */
      isInterrupted: boolean;
      /** True if the browser plays or records audio only after a click: call `resumePlayback()` in one. */
      isPlaybackBlocked: boolean;
      /** Sentence that says why audio does not flow, in one direction or both; absent while it flows. */
      trouble?: string;
    }
  /** The connection broke. */
  | {
      name: 'reconnecting';
      /** Room that the client will be in again, if the caller is in one. */
      room?: string;
      /** True if audio flows in both directions meanwhile. */
      hasAudio: boolean;
      reason: CloseReason;
      /** Number of the next attempt, counted from 0 after a connection that lasted. */
      attempt: number;
      /** Time of the next attempt, Unix time in ms. */
      retryAt: number;
    }
  /** Final state: after `close()`, or for a reason that another attempt would not change. */
  | { name: 'closed'; reason: CloseReason };

export type ClientEvents = {
  /** Emitted when `state` or `muted` has changed. */
  change: ClientState;
  /** Emitted when the transport of the audio has changed; undefined if no room is open. */
  transport: Transport | undefined;
  /** Emitted with a sentence when something failed that the client can do without. */
  fault: string;
  /** Emitted when the browser plays audio only after a click: call `resumePlayback()` in one. */
  playback_blocked: undefined;
};
