import type { PartylineClient } from 'partyline-client';
import { type Guest, makeInvite, redeemInvite } from './invite.ts';
import { Page, type Entry } from './page.ts';
import { Visit } from './visit.ts';
import { errorWords } from './words.ts';

/** The page: fills in what is known, and starts a visit for every press of Join. */

declare global {
  interface Window {
    /** The client of the present (or the last) visit, for the console and for tests. */
    partyline?: PartylineClient;
  }
}

const page = new Page();
let visit: Visit | undefined;

page.onEnter((entry) => {
  remember(entry);
  if (entry.invite === '') startVisit(entry);
  else void enterAsGuest(entry);
});
page.onInvite(() => void showInvitation());
page.onLeave(() => visit?.leave());
page.onMicrophone(() => void visit?.pressMicrophone());
page.devices.onChoice({
  microphone: (id) => void visit?.chooseMicrophone(id),
  speaker: (id) => visit?.chooseSpeaker(id),
});
page.people.onVolume((peer, gain) => visit?.setVolume(peer, gain));
window.addEventListener('pagehide', () => visit?.close());
window.addEventListener('hashchange', () => page.fill(takeAddress()));

page.fill(recall());
page.fill(takeAddress());
page.showEntrance();

function startVisit(entry: Entry, guest?: Guest): void {
  const present = new Visit(page, entry, guest, () => (visit = undefined));
  visit = present;
  window.partyline = present.client;
  void present.start();
}

/** Exchanges the invitation for a name and a token; after a reload of this tab, the same as before. */
async function enterAsGuest(entry: Entry): Promise<void> {
  page.showProgress('Redeeming the invitation…');
  try {
    const guest = recallGuest(entry) ?? (await redeemInvite(entry.invite, entry.peer));
    keep('partyline-guest', { ...guest, invite: entry.invite, name: entry.peer });
    startVisit({ ...entry, peer: guest.peer, room: guest.room }, guest);
  } catch (error) {
    page.showEntrance(errorWords(error));
  }
}

async function showInvitation(): Promise<void> {
  const entry = visit?.entry;
  if (!entry) return;
  try {
    const { url, expires_at: expiresAt } = await makeInvite(entry.apiKey, entry.room);
    if (visit?.entry === entry) await page.invitation.show(url, expiresAt);
  } catch (error) {
    page.showNotice(errorWords(error));
  }
}

/**
 * Reads `#room=kitchen&name=Ada&key=…` or `#invite=…`: the part of an address that browsers do not send. A key is taken out of the address,
 * and so out of the history.
 */
function takeAddress(): Partial<Entry> {
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
function remember({ apiKey, room, peer, invite }: Entry): void {
  const shown = new URLSearchParams(invite === '' ? { room } : { invite });
  history.replaceState(null, '', `#${shown}`);
  keep('partyline', { apiKey, peer });
}

function recall(): Partial<Entry> {
  return (readKept('partyline') as Partial<Entry> | null) ?? {};
}

/** The guest that this tab was, if its token still holds and neither invitation nor name is another. */
function recallGuest({ invite, peer }: Entry): Guest | undefined {
  const kept = readKept('partyline-guest') as (Guest & { invite: string; name: string }) | null;
  if (kept?.invite !== invite || kept.name !== peer) return undefined;
  return Date.parse(kept.expires_at) > Date.now() ? kept : undefined;
}

/** Keeps something for as long as this tab is open, in sessionStorage. */
function keep(name: string, value: object): void {
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
