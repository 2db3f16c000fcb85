import { element } from './element.ts';
import { Devices } from './devices.ts';
import { Invitation } from './invitation.ts';
import { People } from './people.ts';

/** Values of the form at the entrance. */
export type Entry = {
  apiKey: string;
  room: string;
  peer: string;
  listenOnly: boolean;
  /** To hear oneself, before anybody else does: in the room `__echo__`. */
  isTrial: boolean;
  /** In place of key and room; empty if the page was not opened by an invitation. */
  invite: string;
};

export type MicrophoneState = 'on' | 'muted' | 'off';

/** A thing that the reader may do about a notice. */
type NoticeAction = { label: string; run: () => void };

const MUTE_LABELS: Record<MicrophoneState, string> = {
  on: 'Mute',
  muted: 'Unmute',
  off: 'Use mic',
};

/** The document: what it shows, and what is done on it. It knows nothing of the gateway. */
export class Page {
  readonly people = new People();
  readonly devices = new Devices();
  readonly invitation = new Invitation();
  readonly #form = element('form', HTMLFormElement);
  readonly #fields = element('fields', HTMLFieldSetElement);
  readonly #room = element('room', HTMLInputElement);
  readonly #peer = element('peer', HTMLInputElement);
  readonly #apiKey = element('api-key', HTMLInputElement);
  readonly #mute = element('mute', HTMLButtonElement);
  readonly #ownLevel = element('own-level', HTMLDivElement);
  readonly #notice = element('notice', HTMLDivElement);
  readonly #noticeAction = element('notice-action', HTMLButtonElement);
  readonly #entrance = element('entrance', HTMLElement);
  readonly #roomView = element('room-view', HTMLElement);
  #runNoticeAction: (() => void) | undefined;
  #invite = '';

  constructor() {
    element('notice-close', HTMLButtonElement).addEventListener('click', () => this.clearNotice());
    this.#noticeAction.addEventListener('click', () => {
      const run = this.#runNoticeAction;
      this.clearNotice();
      run?.();
    });
  }

  onEnter(enter: (entry: Entry) => void): void {
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      const button = event.submitter instanceof HTMLButtonElement ? event.submitter.value : '';
      enter({
        apiKey: this.#apiKey.value.trim(),
        room: this.#room.value.trim(),
        peer: this.#peer.value.trim(),
        listenOnly: button === 'listen',
        isTrial: button === 'try',
        invite: this.#invite,
      });
    });
  }

  onLeave(leave: () => void): void {
    element('leave', HTMLButtonElement).addEventListener('click', leave);
    element('cancel', HTMLButtonElement).addEventListener('click', leave);
  }

  onInvite(press: () => void): void {
    element('invite', HTMLButtonElement).addEventListener('click', press);
  }

  onMicrophone(press: () => void): void {
    this.#mute.addEventListener('click', press);
  }

  fill({ apiKey, room, peer, invite }: Partial<Entry>): void {
    if (apiKey) this.#apiKey.value = apiKey;
    if (room) this.#room.value = room;
    if (peer) this.#peer.value = peer;
    if (invite !== undefined) this.#fillInvite(invite);
  }

  /** Asks a guest for a name alone. @param invite empty: asks for key and room, too */
  #fillInvite(invite: string): void {
    this.#invite = invite;
    const isGuest = invite !== '';
    element('invited', HTMLElement).hidden = !isGuest;
    element('room-field', HTMLElement).hidden = isGuest;
    element('key-field', HTMLElement).hidden = isGuest;
    // A field that is required and cannot be seen would keep the form from being sent.
    this.#room.disabled = isGuest;
    this.#apiKey.disabled = isGuest;
    element('invite', HTMLElement).hidden = isGuest;
  }

  /** The entrance, ready for another try; with `error`, why the last one ended. */
  showEntrance(error = '', isKeyWrong = false): void {
    const cameFromRoom = !this.#roomView.hidden;
    this.#show(this.#entrance);
    this.#busy(false);
    document.title = 'Partyline';
    setText('entrance-error', error);
    this.#apiKey.setAttribute('aria-invalid', String(isKeyWrong));
    if (isKeyWrong) this.#apiKey.focus();
    else if (cameFromRoom) element('entrance-title', HTMLElement).focus();
    else {
      const fields = [this.#room, this.#peer, this.#apiKey];
      const empty = fields.find((field) => !field.disabled && !field.value);
      (empty ?? element('join', HTMLButtonElement)).focus();
    }
  }

  /** The entrance while the way in is being tried. */
  showProgress(status: string): void {
    this.#busy(true);
    setText('entrance-error', '');
    this.#apiKey.setAttribute('aria-invalid', 'false');
    setText('entrance-status', status);
  }

  /** The room; `isAway` while what it shows may no longer be so. */
  showRoom(room: string, status: string, isAway: boolean, way = ''): void {
    const isNew = this.#roomView.hidden;
    setText('room-title', room);
    setText('room-status', status);
    setText('room-way', way);
    this.#roomView.dataset['away'] = String(isAway);
    document.title = `${room} · Partyline`;
    if (!isNew) return;
    this.#show(this.#roomView);
    element('room-title', HTMLElement).focus();
  }

  showAlone(isAlone: boolean): void {
    element('alone', HTMLElement).hidden = !isAlone;
  }

  showMicrophone(state: MicrophoneState): void {
    this.#mute.dataset['microphone'] = state;
    setText('mute-label', MUTE_LABELS[state]);
  }

  /** @param share of the meter's length, 0 to 1 */
  showOwnLevel(share: number): void {
    this.#ownLevel.style.setProperty('--level', share.toFixed(2));
  }

  /** Says to a screen reader only who came and went; others see it. */
  announce(words: string): void {
    setText('comings', words);
  }

  showNotice(words: string, action?: NoticeAction): void {
    this.#runNoticeAction = action?.run;
    this.#noticeAction.hidden = !action;
    this.#noticeAction.textContent = action?.label ?? '';
    // First visible, then filled: a live region that is hidden says nothing.
    this.#notice.hidden = false;
    setText('notice-text', words);
  }

  clearNotice(): void {
    this.#notice.hidden = true;
    this.#runNoticeAction = undefined;
    setText('notice-text', '');
  }

  #show(view: HTMLElement): void {
    this.#entrance.hidden = view !== this.#entrance;
    this.#roomView.hidden = view !== this.#roomView;
  }

  #busy(isBusy: boolean): void {
    this.#fields.disabled = isBusy;
    element('progress', HTMLElement).hidden = !isBusy;
    if (isBusy) element('cancel', HTMLButtonElement).focus();
    else setText('entrance-status', '');
  }
}

/** Sets a text, if it is another; an error line is hidden when it has none. */
function setText(id: string, text: string): void {
  const target = element(id, HTMLElement);
  if (target.getAttribute('role') === 'alert') target.hidden = !text;
  if (target.textContent !== text) target.textContent = text;
}
