import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import type { Credentials } from '../accounts/authenticator.ts';
import type { Codecs } from '../audio/codecs.ts';
import type { LeaveReason, PeerKind } from '../protocol/messages.ts';
import type { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import type { WebSocketPeer } from '../rooms/websocket-peer.ts';
import type { AudioSettings } from './audio-settings.ts';
import type { AudioPreferences } from './client-audio.ts';
import type { PresenceParts } from './presence.ts';
import type { RequestLimits } from './request-limits.ts';

/** Limits of the account's plan, and the remaining part of them. */
export type AccountLimits = { max_ccu: number; current_ccu: number; remaining_minutes: number };

export type SessionParts = PresenceParts & {
  /** Stream below the WebSocket. */
  stream: Socket;
  /** Stays the same when the client resumes it on another connection. */
  id: string;
  /** Differs for each connection. */
  connectionId: string;
  /** Higher than that of every connection of the account that was admitted before. */
  order: number;
  /** Token with which, and with the id, the client may resume the session. */
  resumeToken: string;
  credentials: Credentials;
  /** The `peer` of the query. */
  peer: string;
  audio: AudioPreferences;
  /** Settings of the session that the client resumes: they win over its query. */
  settings: AudioSettings | undefined;
  /** True if the client asked for `stats`. */
  wantsStats: boolean;
  requestLimits: RequestLimits;
  codecs: Codecs;
  timings: Timings['sessions'];
  log: FastifyBaseLogger;
  /** Called when the client has changed its settings; resolves when they have been stored, or could not be. */
  onSettings: (settings: AudioSettings) => Promise<void>;
  /** Called once, when the connection has ended. */
  onClosed: (reason: LeaveReason, end: SessionEnd) => void;
};

/** Resumable state of a client whose connection has ended. */
export type SessionEnd = {
  /** True if it may resume its session. */
  mayComeBack: boolean;
  /** Place of the client, if it may resume. */
  place: { room: string; peer: WebSocketPeer | WebRtcPeer } | undefined;
  settings: AudioSettings;
};

/** Move of a client to another node: the room in which it is there (empty if none), and the reason for leaving another one here. */
export type Move = { room: string; reason: LeaveReason };

/** The session that a client resumes. */
export type ResumedSession = {
  /** Room of the session, and whether this process keeps its place; undefined if the client was in no room. */
  place: { room: string; isHere: boolean; kind: PeerKind } | undefined;
};
