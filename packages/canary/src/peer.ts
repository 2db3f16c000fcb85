import type { Heard } from './ear.ts';

export type PeerKind = 'websocket' | 'webrtc';
export const KINDS: readonly PeerKind[] = ['websocket', 'webrtc'];

/** A peer of the canary, in its room. */
export type CanaryPeer = {
  readonly kind: PeerKind;
  readonly name: string;
  /** Time from the first byte until the peer is in the room with its media, in ms. */
  readonly joinMs: number;
  /** The transport that it got. */
  readonly path: string;
  /** Called with each error that answers no request, and once with the end of the connection. */
  onFault: (fault: Error) => void;
  /** Sends a frame of 20 ms. */
  send(frame: Uint8Array): void;
  /** Resolves when it can hear another peer, or after a time limit. */
  untilHears(peer: string): Promise<void>;
  /** Forgets what it has heard, and listens. */
  listen(): void;
  /** Returns what it has heard of another peer since then. */
  heard(peer: string): Promise<Heard>;
  close(): Promise<void>;
};
