import type { Guest } from './invite.ts';
import type { Entry } from './page-state.ts';

/** Storage of the form's values: the page's address, and the storage of this tab. */

/**
 * Reads `#room=kitchen&name=Ada&key=…` or `#invite=…`: the part of an address that browsers do not send. A
 * key is taken out of the address, and so out of the history.
 */
export function takeAddress(): Partial<Entry> {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const [room, peer, apiKey] = ['room', 'name', 'key'].map((name) => parameters.get(name));
  if (apiKey) {
    parameters.delete('key');
    history.replaceState(null, '', `#${parameters}`);
  }
  return {
    invite: parameters.get('invite') ?? '',
    ...(room && { room }),
    ...(peer && { peer }),
    ...(apiKey && { apiKey }),
  };
}

/** Keeps the entry for a reload of this tab. The address has the room's name or the invitation, and never the key. */
export function remember({ apiKey, room, peer, invite }: Entry): void {
  const shown = new URLSearchParams(invite === '' ? { room } : { invite });
  history.replaceState(null, '', `#${shown}`);
  keep('partyline', { apiKey, peer });
}

/** Returns what {@link remember} has kept. */
export function recall(): Partial<Entry> {
  return (readKept('partyline') as Partial<Entry> | null) ?? {};
}

type KeptGuest = Guest & { invite: string; name: string };

/**
 * Guest of this tab. The storage holds it only while the page is hidden or not open: browsers copy the storage into a
 * duplicated tab, and the same guest there would end the connection of this one.
 */
let guestOfTab: KeptGuest | null = null;

/** Keeps the guest for which an invitation was exchanged, so that neither another visit nor a reload makes another peer. */
export function rememberGuest({ invite, peer: name }: Entry, guest: Guest): void {
  guestOfTab = { ...guest, invite, name };
  if (document.hidden) storeGuest();
}

/** Returns the guest of this tab, if its token is still valid and invitation and name are the same. */
export function recallGuest({ invite, peer }: Entry): Guest | undefined {
  if (guestOfTab?.invite !== invite || guestOfTab.name !== peer) return undefined;
  return guestOfTab.expiresAtMs > Date.now() ? guestOfTab : undefined;
}

/** Forgets the guest of this tab, because the gateway refuses it. */
export function forgetGuest(): void {
  guestOfTab = null;
  if (document.hidden) storeGuest();
}

/** Stores the guest for a reload of this tab; to be called when the page is left or hidden. */
export function storeGuest(): void {
  keep('partyline-guest', guestOfTab);
}

/** Takes the guest out of the storage; to be called when the page is loaded, restored or shown again. */
export function takeGuest(): void {
  guestOfTab = (readKept('partyline-guest') as KeptGuest | null) ?? guestOfTab;
  keep('partyline-guest', null);
}

/** Keeps something for as long as this tab is open, in sessionStorage. */
function keep(name: string, value: object | null): void {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // The browser forbids storage: then it must be given again.
  }
}

/** Reads what {@link keep} has written, on this origin. */
function readKept(name: string): unknown {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? 'null');
  } catch {
    return null;
  }
}
