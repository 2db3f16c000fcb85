import type { PartylineClient } from './client.ts';
import { Page, type Entry } from './page.ts';
import { Visit } from './visit.ts';

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
  const present = new Visit(page, entry, () => (visit = undefined));
  visit = present;
  window.partyline = present.client;
  void present.start();
});
page.onLeave(() => visit?.leave());
page.onMicrophone(() => void visit?.pressMicrophone());
window.addEventListener('pagehide', () => visit?.close());
window.addEventListener('hashchange', () => page.fill(fromAddress()));

page.fill(recall());
page.fill(fromAddress());
page.showEntrance();

/** `#room=kitchen`: the part of an address that browsers do not send. */
function fromAddress(): Partial<Entry> {
  const room = new URLSearchParams(location.hash.slice(1)).get('room');
  return room ? { room } : {};
}

/** Keeps the entry for a reload of this tab: in sessionStorage, which goes with it. Only the room's name is in the address. */
function remember({ apiKey, room, peer }: Entry): void {
  history.replaceState(null, '', `#${new URLSearchParams({ room })}`);
  try {
    sessionStorage.setItem('partyline', JSON.stringify({ apiKey, peer }));
  } catch {
    // The browser forbids storage: then it must be pasted again.
  }
}

function recall(): Partial<Entry> {
  try {
    // Written by remember() above, on this origin.
    return JSON.parse(sessionStorage.getItem('partyline') ?? '{}') as Partial<Entry>;
  } catch {
    return {};
  }
}
