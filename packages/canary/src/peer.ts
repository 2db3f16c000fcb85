import type { Heard } from './ear.ts';

export type PeerKind = 'websocket' | 'webrtc';

/** A peer of the canary, in its room. */
export type CanaryPeer = {
  readonly kind: PeerKind;
  readonly name: string;
  /** Time from the first byte to being in the room, media included, in ms. */
  readonly joinMs: number;
  /** The transport that it got. */
  readonly path: string;
  /** Sends a frame of 20 ms. */
  send(frame: Uint8Array): void;
  /** Resolves when it could hear another peer, or after a while if it cannot. */
  untilHears(peer: string): Promise<void>;
  /** Forgets what it has heard, and listens. */
  listen(): void;
  /** Returns what it has heard of another peer since then. */
  heard(peer: string): Promise<Heard>;
  close(): Promise<void>;
};
