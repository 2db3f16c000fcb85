import type { Transport } from 'partyline-client';

/** Values of the form at the entrance. */
export type Entry = {
  apiKey: string;
  room: string;
  peer: string;
  listenOnly: boolean;
  /** True to hear oneself, in the room `__echo__`. */
  isTrial: boolean;
  /** Invitation, in place of key and room; empty if the page was not opened by one. */
  invite: string;
};

/** Texts of the form's fields. */
type Fields = Pick<Entry, 'apiKey' | 'room' | 'peer'>;

/** Ids of the devices in use; empty: the browser's default one. */
export type Devices = { microphone: string; speakers: string };

export type MicrophoneState = 'on' | 'muted' | 'off';

export type Person = {
  peer: string;
  kind: Transport;
  isSelf: boolean;
  muted: boolean;
  /** Volume of the peer when it is first shown. */
  gain: number;
  /** dBov; absent while silent. */
  levelDbov?: number;
};

/** Level shown for a peer whose format cannot be measured. */
export const UNKNOWN_LEVEL_DBOV = -30;

export const withLevel = (person: Omit<Person, 'levelDbov'>, levelDbov?: number): Person =>
  levelDbov === undefined ? person : { ...person, levelDbov };

/** A sentence about a fault. */
export type Notice = {
  words: string;
  /** True if it says that there is no microphone, which another one ends. */
  isOfMicrophone?: boolean;
};

/** A link into a room; `code` is the address of a picture of its QR code, `expiresAt` ISO 8601. */
export type ShownInvitation = { url: string; code: string; expiresAt: string };

/** Head of the room. */
export type RoomState = {
  title: string;
  status: string;
  /** Description of the audio transport; empty while there is none. */
  way: string;
  /** True while the connection is lost, and the room may have changed. */
  isAway: boolean;
  /** True if this peer can make invitations into the room. */
  mayInvite: boolean;
  /** Plays sound, in the handler of a click for which the browser waits; absent while it waits for none. */
  play?: () => void;
};

/** Everything that the page shows. */
export type PageState = {
  fields: Fields;
  invite: string;
  /** Reason for which the last visit failed; empty if there is none. */
  error: string;
  isKeyWrong: boolean;
  /** Present step of joining; undefined while the form can be filled in. */
  progress: string | undefined;
  /** Undefined while the entrance is shown. */
  room: RoomState | undefined;
  people: readonly Person[];
  isAlone: boolean;
  /** Announcement of the last peers that joined and left, for screen readers only. */
  comings: string;
  microphone: MicrophoneState;
  devices: Devices;
  notice: Notice | undefined;
  invitation: ShownInvitation | undefined;
};

/** Handlers of all that a reader can do on the page. */
export type PageActions = {
  /** A field was edited. */
  edit: (fields: Partial<Fields>) => void;
  enter: (entry: Entry) => void;
  leave: () => void;
  pressMicrophone: () => void;
  /** Level of the own microphone, 0 to 1. */
  ownLevel: () => number;
  /** @param id id of a device; empty: the browser's default one */
  chooseMicrophone: (id: string) => void;
  chooseSpeaker: (id: string) => void;
  /** Called when a device that was in use is no longer available: the default one takes its place. */
  forgetDevice: (kind: keyof Devices) => void;
  /** @param gain 1 is as it was sent */
  setVolume: (peer: string, gain: number) => void;
  invite: () => void;
  closeInvitation: () => void;
  clearNotice: () => void;
};

/** Properties of every view. */
export type ViewProps = { state: PageState; actions: PageActions };

/** Part of the state that belongs to a visit, when there is none. */
const NO_VISIT = {
  progress: undefined,
  room: undefined,
  people: [],
  isAlone: false,
  comings: '',
  microphone: 'off',
  devices: { microphone: '', speakers: '' },
  notice: undefined,
  invitation: undefined,
} as const;

const START: PageState = {
  fields: { apiKey: '', room: '', peer: '' },
  invite: '',
  error: '',
  isKeyWrong: false,
  ...NO_VISIT,
};

/** The state of the page, and its changes. It knows neither the document nor the gateway. */
export class Page {
  #state = START;
  /** Values that came during a visit, for the entrance after it. */
  #later: Partial<Entry> = {};
  readonly #changed: (state: PageState) => void;

  /** @param changed called with the new state after each change */
  constructor(changed: (state: PageState) => void) {
    this.#changed = changed;
  }

  get state(): PageState {
    return this.#state;
  }

  /** Changes some of the state. */
  show(change: Partial<PageState>): void {
    this.#state = { ...this.#state, ...change };
    this.#changed(this.#state);
  }

  /** Fills in fields: at once at the entrance, otherwise when it is shown again. Empty or absent values leave them as they are. */
  fillIn(entry: Partial<Entry>): void {
    const { room, progress } = this.#state;
    this.#later = { ...this.#later, ...entry };
    if (room === undefined && progress === undefined) this.show(this.#takeLater());
  }

  /** Asks for room and key in place of an invitation, unless another one has come meanwhile. */
  forgetInvitation(): void {
    this.#later = { invite: '', ...this.#later };
  }

  /** Returns the values that came last, with the fields as they are otherwise. */
  #takeLater(): Pick<PageState, 'fields' | 'invite'> {
    const { apiKey, room, peer, invite = this.#state.invite } = this.#later;
    this.#later = {};
    const fields = {
      ...this.#state.fields,
      ...(apiKey && { apiKey }),
      ...(room && { room }),
      ...(peer && { peer }),
    };
    return { fields, invite };
  }

  /** Shows the entrance, ready for another attempt; `error` is the reason of the last failure. */
  showEntrance(error = '', isKeyWrong = false): void {
    this.show({ ...NO_VISIT, ...this.#takeLater(), error, isKeyWrong });
  }

  /** Shows the entrance during an attempt to join. */
  showProgress(progress: string): void {
    this.show({ progress, error: '', isKeyWrong: false });
  }

  /** Shows the room. @param more what else changes at the same time: every change draws the page */
  showRoom(room: RoomState, more: Partial<PageState>): void {
    this.show({ room, progress: undefined, ...more });
  }

  showNotice(words: string): void {
    this.show({ notice: { words } });
  }

  /** Says that there is no microphone, until {@link clearMicrophoneNotice}. */
  showMicrophoneNotice(words: string): void {
    this.show({ notice: { words, isOfMicrophone: true } });
  }

  clearMicrophoneNotice(): void {
    if (this.#state.notice?.isOfMicrophone) this.show({ notice: undefined });
  }

  showDevice(kind: keyof Devices, id: string): void {
    this.show({ devices: { ...this.#state.devices, [kind]: id } });
  }

  /** Returns the people without the levels of those that speak. */
  silentPeople(): Person[] {
    return this.#state.people.map((person) => {
      const silent = { ...person };
      delete silent.levelDbov;
      return silent;
    });
  }
}
