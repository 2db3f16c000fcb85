import { post } from './token.ts';

/** A link into a room; `expiresAt` is ISO 8601. */
export type Invite = { url: string; expiresAt: string };

/** Result of exchanging an invitation: a name, and the token with which it may enter. */
export type Guest = {
  token: string;
  peer: string;
  room: string;
  /** End of the token's life, Unix time by the clock of this browser, which may differ from the gateway's. */
  expiresAtMs: number;
  /** End of the invitation by the same clock: until then it can be exchanged again. */
  invitedUntilMs: number;
};

/** Makes a link into a room, to this page as the browser sees it: the gateway does not know the path that a proxy has for it. @throws {TokenError} */
export async function makeInvite(apiKey: string, room: string): Promise<Invite> {
  type Made = { invite: string; expires_at: string };
  const api = new URL('api/invites', document.baseURI);
  const { answer } = await post<Made>(api, { room }, apiKey);
  const link = new URL('.', document.baseURI);
  link.hash = new URLSearchParams({ invite: answer.invite }).toString();
  return { url: link.href, expiresAt: answer.expires_at };
}

/** Exchanges an invitation for a token. @throws {TokenError} */
export async function redeemInvite(invite: string, name: string): Promise<Guest> {
  type Redeemed = { token: string; peer: string; room: string; expires_at: string };
  const url = new URL('api/invites/redeem', document.baseURI);
  const { answer, sentWallMs } = await post<Redeemed>(url, { invite, name });
  const { token, peer, room, expires_at: expiresAt } = answer;
  const aheadMs = Date.now() - sentWallMs;
  return {
    token,
    peer,
    room,
    expiresAtMs: Date.parse(expiresAt) + aheadMs,
    invitedUntilMs: endOf(invite) + aheadMs,
  };
}

/** Returns the end of an invitation, which is a JWT, by the clock of the gateway: Unix time, ms; 0 if it cannot be read. */
function endOf(invite: string): number {
  try {
    const [, part = ''] = invite.split('.');
    const claims: unknown = JSON.parse(atob(part.replaceAll('-', '+').replaceAll('_', '/')));
    return Number((claims as { exp?: unknown }).exp) * 1000 || 0;
  } catch {
    return 0;
  }
}

/** Returns whether an address leads every machine to itself. */
export const isOfThisMachine = (url: string): boolean =>
  /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(url).hostname);
