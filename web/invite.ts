import { post } from './token.ts';

/** A link into a room. */
export type Invite = { url: string; expires_at: string };

/** Result of exchanging an invitation: a name, and the token with which it may enter. */
export type Guest = {
  token: string;
  peer: string;
  room: string;
  /** End of the token's life, Unix time by the clock of this browser, which may differ from the gateway's. */
  expiresAtMs: number;
};

/** Makes a link into a room. @throws {TokenError} */
export async function makeInvite(apiKey: string, room: string): Promise<Invite> {
  const url = new URL('/api/invites', location.href);
  const { answer } = await post<Invite>(url, { room }, apiKey);
  return answer;
}

/** Exchanges an invitation for a token. @throws {TokenError} */
export async function redeemInvite(invite: string, name: string): Promise<Guest> {
  type Redeemed = { token: string; peer: string; room: string; expires_at: string };
  const url = new URL('/api/invites/redeem', location.href);
  const { answer, sentAtMs } = await post<Redeemed>(url, { invite, name });
  const { token, peer, room, expires_at: expiresAt } = answer;
  const lifetimeMs = Date.parse(expiresAt) - sentAtMs;
  return { token, peer, room, expiresAtMs: Date.now() + lifetimeMs };
}
