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
 * duplicated tab, and the same guest there would end the connection of this one. If a tab is duplicated while it is hidden,
 * the lock that it holds keeps the duplicate from using its guest (`claim`).
 */
let guestOfTab: KeptGuest | null = null;
/** Peer whose lock this page holds. */
let claimedPeer: string | undefined;

/** Keeps the guest for which an invitation was exchanged, so that neither another visit nor a reload makes another peer. */
export function rememberGuest({ invite, peer: name }: Entry, guest: Guest): void {
  guestOfTab = { ...guest, invite, name };
  void claim(guest.peer);
  if (document.hidden) storeGuest();
}

/** Returns the guest of this tab, if its token is still valid, invitation and name are the same, and no other tab has it. */
export async function recallGuest({ invite, peer }: Entry): Promise<Guest | undefined> {
  const guest = guestOfTab;
  if (guest?.invite !== invite || guest.name !== peer) return undefined;
  if (guest.expiresAtMs <= Date.now()) return undefined;
  return (await claim(guest.peer)) ? guest : undefined;
}

/** Takes the lock of a guest for as long as the page is open. @returns false if another page of this browser holds it */
function claim(peer: string): Promise<boolean> {
  // Browsers have no locks on pages over plain HTTP.
  const { locks }: { locks?: LockManager } = navigator;
  if (!locks || peer === claimedPeer) return Promise.resolve(true);
  return new Promise((resolve) => {
    const hold = (lock: Lock | null) => {
      if (lock) claimedPeer = peer;
      resolve(lock !== null);
      return lock && new Promise(() => undefined);
    };
    // Fails only if the page ends meanwhile, or may not use the storage.
    locks.request(`partyline ${peer}`, { ifAvailable: true }, hold).catch(() => resolve(true));
  });
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
