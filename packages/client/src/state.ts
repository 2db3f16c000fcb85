import type { CloseReason } from './retry.ts';

/** State of a `PartylineClient`, as the program that uses it sees it. */

/** How a client is connected: by WebRTC, or with sound over the WebSocket. */
export type Transport = 'webrtc' | 'websocket';

/** Someone else in the room. */
export type RemotePeer = {
  peer: string;
  kind: Transport;
  /** Nothing that it says is heard. */
  muted: boolean;
  /** Audio of this peer; absent until it speaks for the first time, and over the WebSocket, where all come as one. */
  track?: MediaStreamTrack;
};

/** Options of a `PartylineClient`. */
export type ClientOptions = {
  /** A token with which `peer` may connect (`POST /api/tokens`): asked for at each connection, and again if it takes longer than 10 s. May throw a `TokenError`. */
  getToken: () => Promise<string>;
  /** The name of this peer, unique within the account: a second connection with the same name replaces the first. */
  peer: string;
  /** The gateway's WebSocket endpoint; default: `/ws` on the host that this page came from. */
  url?: string | URL;
  /** The transports that may be used, the preferred one first; default: `['webrtc', 'websocket']`. */
  transports?: readonly Transport[];
  /** Where the files for audio over the WebSocket are, if they are not beside the module. */
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
      /** How sound goes and comes. */
      transport: Transport;
      /**
       * No audio goes or comes for now: the way to the gateway broke and is being mended, or, over the WebSocket, the
       * browser has stopped the audio (`trouble` says which).
       */
      isInterrupted: boolean;
      /** The browser plays sound only after a click: call `resumePlayback()` in one. */
      isPlaybackBlocked: boolean;
      /** Why sound does not flow, in one direction or both, as a sentence; absent while it does. */
      trouble?: string;
    }
  /** The connection broke; the next attempt is at `retryAt` (Unix time in ms). */
  | {
      name: 'reconnecting';
      /** Where we shall be again, if the caller is in a room. */
      room?: string;
      /** We hear and are heard in it meanwhile. */
      hasAudio: boolean;
      reason: CloseReason;
      attempt: number;
      retryAt: number;
    }
  /** The end: by `close()`, or for a reason that trying again would not mend. */
  | { name: 'closed'; reason: CloseReason };

export type ClientEvents = {
  /** `state` or `muted` is not what it was. */
  change: ClientState;
  /** Sound goes another way than before; undefined: it does not, because no room is open. */
  transport: Transport | undefined;
  /** Something failed and the client goes on without it; a sentence. */
  fault: string;
  /** The browser plays sound only after a click: call `resumePlayback()` in one. */
  playback_blocked: undefined;
};
