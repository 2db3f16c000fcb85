import { post } from './token.ts';

/** A link into a room. */
export type Invite = { url: string; expires_at: string };

/** Result of exchanging an invitation: a name, and the token with which it may enter. */
export type Guest = { token: string; peer: string; room: string; expires_at: string };

/** Makes a link into a room. @throws {TokenError} */
export const makeInvite = (apiKey: string, room: string): Promise<Invite> =>
  post<Invite>(new URL('/api/invites', location.href), { room }, apiKey);

/** Exchanges an invitation for a token. @throws {TokenError} */
export const redeemInvite = (invite: string, name: string): Promise<Guest> =>
  post<Guest>(new URL('/api/invites/redeem', location.href), { invite, name });
