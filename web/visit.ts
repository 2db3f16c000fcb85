import {
  ClosedError,
  type ClientState,
  type CloseReason,
  Microphone,
  PartylineClient,
} from 'partyline-client';
import { isRaw, transportsOfAddress } from './address-options.ts';
import type { Guest } from './invite.ts';
import { Inviter } from './inviter.ts';
import { OwnMicrophone } from './own-microphone.ts';
import type { Entry, MicrophoneState, Page } from './page-state.ts';
import { MICROPHONE_WAIT } from './room-words.ts';
import { ShownRoom } from './shown-room.ts';
import { SOUND_FILES } from './sound-files.ts';
import { askForToken } from './token.ts';
import { untilConnected } from './until-connected.ts';
import {
  endWords,
  errorWords,
  guestEndWords,
  isKeyUnknown,
  microphoneWords,
  retryWords,
  speakerWords,
} from './words.ts';

type Ended = (isRefused: boolean, hasJoined: boolean) => void;

/** One visit, from pressing Join to leaving: a client, a microphone, and their state on the page. */
export class Visit {
  readonly client: PartylineClient;
  readonly #page: Page;
  readonly #entry: Entry;
  readonly inviter: Inviter;
  readonly #room: ShownRoom;
  readonly #guest: Guest | undefined;
  readonly #ended: Ended;
  readonly #ending = new AbortController();
  readonly #microphone = new OwnMicrophone((deviceId) =>
    Microphone.open({ deviceId, processing: !isRaw() }),
  );
  /** Number of the last choice of speakers, and of the last that the browser has accepted. */
  #speakerChoice = 0;
  #acceptedChoice = 0;
  #lastFault = '';
  /** False until the client has joined. */
  #hasJoined = false;

  /**
   * @param guest guest for which an invitation was exchanged; undefined for a user with a key
   * @param ended called when the page shows the entrance again; `isRefused` if the gateway does not accept the token or key
   */
  constructor(page: Page, entry: Entry, guest: Guest | undefined, ended: Ended) {
    this.#page = page;
    this.#entry = entry;
    this.#guest = guest;
    this.#ended = ended;
    this.client = new PartylineClient({
      getToken: () => (guest ? Promise.resolve(guest.token) : askForToken(entry)),
      peer: entry.peer,
      url: new URL('ws', document.baseURI),
      assets: SOUND_FILES,
      ...transportsOfAddress(),
    });
    this.#room = new ShownRoom(page, this.client, entry);
    const { signal } = this.#ending;
    this.inviter = new Inviter(page, entry, signal);
    this.client.on('change', (state) => this.#show(state), { signal });
    this.client.on('fault', (words) => this.#fault(words), { signal });
  }

  get #over(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Joins the room. Never rejects: faults are shown. */
  async start(): Promise<void> {
    try {
      await this.client.connect();
      // Asked for only now, so that a wrong key does not lead to a permission prompt.
      if (!this.#entry.listenOnly) {
        this.#page.showProgress(MICROPHONE_WAIT);
        await this.#openMicrophone('');
      }
      // It may have been lost while the browser asked for the microphone.
      await untilConnected(this.client, this.#ending.signal);
      if (this.#over) return;
      await this.client.join(this.#room.name, this.#microphone.current?.track);
      this.#hasJoined = true;
    } catch (error) {
      const reason = error instanceof ClosedError ? error.reason : undefined;
      if (reason) this.#endFor(reason);
      else this.#end(errorWords(error));
    }
  }

  leave(): void {
    this.#end('');
  }

  /** Level of the own microphone, 0 to 1. */
  ownLevel(): number {
    return this.#microphone.current?.level() ?? 0;
  }

  /** Changes the microphone. @param deviceId empty for the default one */
  async chooseMicrophone(deviceId: string): Promise<void> {
    const microphone = await this.#openMicrophone(deviceId);
    try {
      if (microphone) await this.client.setMicrophone(microphone.track);
    } catch (error) {
      this.#fault(errorWords(error));
    }
  }

  /** Changes the speakers; if the browser refuses them, those before stay. @param deviceId empty for the default ones */
  chooseSpeaker(deviceId: string): void {
    const choice = (this.#speakerChoice += 1);
    this.client.setSpeaker(deviceId).then(
      () => {
        if (this.#over || choice < this.#acceptedChoice) return;
        this.#acceptedChoice = choice;
        this.#page.showDevice('speakers', deviceId);
      },
      (error: unknown) => this.#over || this.#fault(speakerWords(error)),
    );
  }

  setVolume(peer: string, gain: number): void {
    this.client.setVolume(peer, gain).catch((error: unknown) => this.#fault(errorWords(error)));
  }

  /** The microphone's button: mute, unmute, or try to get one. */
  async pressMicrophone(): Promise<void> {
    try {
      if (!this.#microphone.current)
        await this.chooseMicrophone(this.#page.state.devices.microphone);
      else if (this.client.muted) await this.client.unmute();
      else await this.client.mute();
    } catch (error) {
      this.#fault(errorWords(error));
    }
  }

  #endFor(reason: CloseReason): void {
    const isRefused = reason.code === 'unauthorized';
    const guest = isRefused ? this.#guest : undefined;
    const wallMs = Date.now();
    const words = guest ? guestEndWords(guest, wallMs) : endWords(reason);
    // The entrance then asks for room and key.
    if (guest && wallMs >= guest.invitedUntilMs) this.#page.forgetInvitation();
    this.#end(words, isRefused, isKeyUnknown(reason));
  }

  #end(words: string, isRefused = false, isKeyWrong = false): void {
    if (this.#over) return;
    this.#ending.abort();
    // Sent before the close frame, without waiting for the answer.
    this.client.leave().catch(() => undefined);
    this.client.close();
    this.#microphone.close();
    this.#page.showEntrance(words, isKeyWrong);
    this.#ended(isRefused, this.#hasJoined);
  }

  #fault(words: string): void {
    this.#lastFault = words;
    this.#page.showNotice(words);
  }

  /**
   * Opens a microphone, or shows the reason if it cannot.
   * @param deviceId empty for the default one
   * @returns undefined on failure, or if another choice came before the answer
   */
  async #openMicrophone(deviceId: string): Promise<Microphone | undefined> {
    try {
      const microphone = await this.#microphone.open(deviceId);
      if (!microphone) return undefined;
      const { signal } = this.#ending;
      microphone.track.addEventListener(
        'ended',
        () => {
          if (this.#microphone.current === microphone) void this.#loseMicrophone();
        },
        { signal },
      );
      this.#page.showDevice('microphone', deviceId);
      this.#page.clearMicrophoneNotice();
      this.#showMicrophone();
      return microphone;
    } catch (error) {
      this.#page.showMicrophoneNotice(
        microphoneWords(error, this.#microphone.current !== undefined),
      );
      return undefined;
    }
  }

  /** Handles a microphone that was unplugged or whose permission was revoked: another may be available or opening. */
  async #loseMicrophone(): Promise<void> {
    this.#microphone.drop();
    this.#page.showDevice('microphone', '');
    this.#showMicrophone();
    // At once: the client itself would say that the microphone is gone, also when another came.
    this.client.setMicrophone(null).catch((error: unknown) => this.#fault(errorWords(error)));
    if (!this.#microphone.isOpening) await this.chooseMicrophone('');
    if (this.#microphone.current || this.#microphone.isOpening || this.#over) return;
    this.#page.showMicrophoneNotice(
      'The microphone is gone. You can listen, but nobody hears you.',
    );
  }

  #showMicrophone(): void {
    this.#page.show({ microphone: this.#microphoneState });
  }

  get #microphoneState(): MicrophoneState {
    if (!this.#microphone.current) return 'off';
    return this.client.muted ? 'muted' : 'on';
  }

  #show(state: ClientState): void {
    switch (state.name) {
      case 'idle':
        break;
      case 'lobby':
        // Until the first join this is part of entering; later the gateway has removed us.
        if (this.#hasJoined) this.#end(this.#lastFault);
        else if (this.#microphone.isOpening) this.#page.showProgress(MICROPHONE_WAIT);
        break;
      case 'connecting':
        this.#showWay('Connecting to the gateway…');
        break;
      case 'joining':
        this.#showWay('Entering the room…');
        break;
      case 'reconnecting':
        this.#showWay(retryWords(state, state.retryAt - Date.now()));
        break;
      case 'in_room':
        this.#room.show(state, this.#microphoneState);
        break;
      case 'closed':
        this.#endFor(state.reason);
    }
  }

  #showWay(status: string): void {
    this.#room.showWay(status, this.#microphoneState);
  }
}
