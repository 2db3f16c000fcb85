import type { Transport } from 'partyline-client';

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

/** Texts of the form's fields. */
type Fields = Pick<Entry, 'apiKey' | 'room' | 'peer'>;

export type MicrophoneState = 'on' | 'muted' | 'off';

export type Person = {
  peer: string;
  kind: Transport;
  isSelf: boolean;
  muted: boolean;
  /** How loud it is heard here when it is shown first. */
  gain: number;
  /** dBov; absent while silent. */
  levelDbov?: number;
};

/** A sentence about what went wrong, and a thing that the reader may do about it. */
export type Notice = { words: string; action?: { label: string; run: () => void } };

/** A link into a room; `code` is the address of a picture of its QR code, `expiresAt` ISO 8601. */
export type ShownInvitation = { url: string; code: string; expiresAt: string };

/** Head of the room. */
export type RoomState = {
  title: string;
  status: string;
  /** The way that sound goes; empty while it goes none. */
  way: string;
  /** The room may have changed since: the connection is lost. */
  isAway: boolean;
};

/** Everything that the page shows. */
export type PageState = {
  fields: Fields;
  invite: string;
  /** Why the last visit ended; empty if nothing was wrong. */
  error: string;
  isKeyWrong: boolean;
  /** Step that is being taken on the way in; undefined while the form can be filled in. */
  progress: string | undefined;
  /** Undefined while the entrance is shown. */
  room: RoomState | undefined;
  people: readonly Person[];
  isAlone: boolean;
  /** Names of those that came and went last, for screen readers alone: others see it. */
  comings: string;
  microphone: MicrophoneState;
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
  /** @param id of a device; empty: the browser's default one */
  chooseMicrophone: (id: string) => void;
  chooseSpeaker: (id: string) => void;
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

  /** Fills in fields; what is empty or absent leaves them as they are. */
  fillIn({ apiKey, room, peer, invite }: Partial<Entry>): void {
    const fields = {
      ...this.#state.fields,
      ...(apiKey && { apiKey }),
      ...(room && { room }),
      ...(peer && { peer }),
    };
    this.show({ fields, ...(invite !== undefined && { invite }) });
  }

  /** The entrance, ready for another try; with `error`, why the last one ended. */
  showEntrance(error = '', isKeyWrong = false): void {
    this.show({ ...NO_VISIT, error, isKeyWrong });
  }

  /** The entrance while the way in is being tried. */
  showProgress(progress: string): void {
    this.show({ progress, error: '', isKeyWrong: false });
  }

  /** The room. */
  showRoom(room: RoomState): void {
    this.show({ room, progress: undefined });
  }

  showNotice(words: string, action?: Notice['action']): void {
    this.show({ notice: { words, ...(action && { action }) } });
  }

  /** Shows nobody as speaking. */
  silence(): void {
    const people = this.#state.people.map((person) => {
      const silent = { ...person };
      delete silent.levelDbov;
      return silent;
    });
    this.show({ people });
  }
}
