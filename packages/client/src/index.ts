/** Voice in rooms of a Partyline gateway, for browsers. See docs/client.md. */
export { PartylineClient } from './client.ts';
export { ClosedError, PartylineError, RequestError, TokenError } from './errors.ts';
export { InvitedGuest } from './invited-guest.ts';
export { meterShare } from './level.ts';
export { Microphone, type MicrophoneOptions } from './microphone.ts';
export { reasonForCloseCode, type CloseReason } from './retry.ts';
export type {
  AudioAssets,
  ClientEvents,
  ClientOptions,
  ClientState,
  RemotePeer,
  Transport,
} from './state.ts';
export type { ClientStats } from './stats.ts';
