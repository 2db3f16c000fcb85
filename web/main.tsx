import type { PartylineClient } from 'partyline-client';
import { render } from 'preact';
import { App } from './app.tsx';
import { Page, type Entry, type PageActions, type PageState } from './page-state.ts';
import {
  forgetGuest,
  recall,
  recallGuest,
  remember,
  rememberGuest,
  storeGuest,
  takeAddress,
  takeGuest,
} from './remembered.ts';
import type { Visit } from './visit.ts';
import { errorWords, isInvitationOver } from './words.ts';

/** Entry point of the page: fills in the remembered form, and starts a visit whenever Join is pressed. */

declare global {
  interface Window {
    /** The client of the present (or the last) visit, for the console and for tests. */
    partyline?: PartylineClient;
  }
}

type Program = typeof import('./room-program.ts');

let program: Program | undefined;
/** Aborted by Cancel while no visit exists yet. */
let entering: AbortController | undefined;
let visit: Visit | undefined;

document.querySelector('#not-loaded')?.remove();
const root = document.createElement('div');
document.body.append(root);
const page = new Page((state) => draw(state));

const actions: PageActions = {
  edit: (fields) => page.show({ fields: { ...page.state.fields, ...fields } }),
  enter: (entry) => void enter(entry),
  leave,
  pressMicrophone: () => void visit?.pressMicrophone(),
  ownLevel: () => visit?.ownLevel() ?? 0,
  chooseMicrophone: (id) => void visit?.chooseMicrophone(id),
  chooseSpeaker: (id) => visit?.chooseSpeaker(id),
  forgetDevice: (kind) => page.showDevice(kind, ''),
  setVolume: (peer, gain) => visit?.setVolume(peer, gain),
  invite: () => void visit?.inviter.invite(),
  closeInvitation: () => page.show({ invitation: undefined }),
  clearNotice: () => page.show({ notice: undefined }),
};

// The others see a leave, not a broken connection; a page that the browser restores shows the
// entrance.
window.addEventListener('pagehide', () => {
  visit?.leave();
  storeGuest();
});
window.addEventListener('pageshow', takeGuest);
// Browsers end hidden pages without `pagehide`.
document.addEventListener('visibilitychange', () => (document.hidden ? storeGuest() : takeGuest()));
window.addEventListener('hashchange', () => page.fillIn(takeAddress()));
page.fillIn({ ...recall(), ...takeAddress() });
takeGuest();
// Prefetched; Join reports a failure.
loadProgram().catch(() => undefined);

function draw(state: PageState): void {
  render(<App state={state} actions={actions} RoomView={program?.RoomView} />, root);
}

async function loadProgram(): Promise<Program> {
  program ??= await import('./room-program.ts');
  return program;
}

/** Starts a visit; an invitation is first exchanged for a name and a token. */
async function enter(entry: Entry): Promise<void> {
  remember(entry);
  const { signal } = (entering = new AbortController());
  page.showProgress(entry.invite === '' ? 'Connecting…' : 'Redeeming the invitation…');
  try {
    const { redeemInvite, Visit: VisitOfRoom } = await loadProgram();
    const recalled = entry.invite === '' ? undefined : await recallGuest(entry);
    let guest = recalled;
    if (entry.invite !== '') {
      guest ??= await redeemInvite(entry.invite, entry.peer);
      rememberGuest(entry, guest);
    }
    if (signal.aborted) return;
    const entered = guest ? { ...entry, peer: guest.peer, room: guest.room } : entry;
    visit = new VisitOfRoom(page, entered, guest, (isRefused, hasJoined) => {
      visit = undefined;
      if (isRefused && guest) forgetGuest();
      // The kept token may have expired before its invitation, which is then redeemed again: once,
      // because a fresh token is not `recalled`, and not after the guest was in the room. Its user
      // may have left the device by then, and only a press of Join may open the microphone.
      if (isRefused && recalled && !hasJoined) void enter(entry);
    });
    window.partyline = visit.client;
    await visit.start();
  } catch (error) {
    if (signal.aborted) return;
    // Then the form asks for room and key: without them there would be no other way in.
    if (isInvitationOver(error)) page.forgetInvitation();
    const isLoaded = program !== undefined;
    page.showEntrance(
      isLoaded ? errorWords(error) : 'The gateway does not answer. Reload the page.',
    );
  }
}

function leave(): void {
  if (visit) return visit.leave();
  entering?.abort();
  page.showEntrance();
}
