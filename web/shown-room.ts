import type { ClientState, PartylineClient } from 'partyline-client';
import type { Entry, MicrophoneState, Page, PageState, RoomState } from './page-state.ts';
import { UNKNOWN_LEVEL_DBOV, withLevel } from './page-state.ts';
import { comingsOf, inRoomWords, wayWords } from './room-words.ts';

type InRoom = Extract<ClientState, { name: 'in_room' }>;

/** The room in which everybody is alone, and hears itself. */
const ECHO = '__echo__';

/** Beginning of the trouble of a client that sends nothing; the reason follows. */
const UNHEARD = 'Nobody hears you: ';

/** The room of one visit, as the page shows it. */
export class ShownRoom {
  /** Name of the room. */
  readonly name: string;
  readonly #page: Page;
  readonly #client: PartylineClient;
  readonly #isTrial: boolean;
  readonly #mayInvite: boolean;
  #people: ReadonlySet<string> | undefined;
  /** Trouble that the status says. */
  #trouble: string | undefined;

  constructor(page: Page, client: PartylineClient, { isTrial, room, invite }: Entry) {
    this.name = isTrial ? ECHO : room;
    this.#page = page;
    this.#client = client;
    this.#isTrial = this.name === ECHO;
    this.#mayInvite = invite === '' && !this.#isTrial;
  }

  /** Part of the head that stays the same during the visit. */
  get #head(): Pick<RoomState, 'title' | 'mayInvite'> {
    return { title: this.#isTrial ? 'Hear yourself' : this.name, mayInvite: this.#mayInvite };
  }

  /** Shows a step on the way in at the entrance, or on the way back in the room. */
  showWay(status: string, microphone: MicrophoneState): void {
    if (!this.#people) return this.#page.showProgress(status);
    const room = { ...this.#head, status, way: '', isAway: true };
    const people = this.#page.silentPeople();
    this.#page.showRoom(room, { people, microphone });
  }

  /** Shows the room while the client is in it. */
  show(state: InRoom, microphone: MicrophoneState): void {
    const room = {
      ...this.#head,
      status: inRoomWords(state, this.#isTrial),
      way: wayWords(state),
      isAway: state.isInterrupted,
      ...(state.isPlaybackBlocked && { play: this.#play }),
    };
    const over = this.#isNoticeOver(state.trouble) && { notice: undefined };
    this.#trouble = state.trouble;
    this.#page.showRoom(room, { microphone, ...over, ...this.#peopleOf(state) });
  }

  /** Returns true if the notice gives the reason of a trouble that is over. */
  #isNoticeOver(trouble: string | undefined): boolean {
    const before = this.#trouble;
    if (before === trouble || !before?.startsWith(UNHEARD)) return false;
    // The client has also told a fault: "You cannot be heard: …", with the same reason.
    const reason = before.slice(UNHEARD.length);
    return reason !== '' && this.#page.state.notice?.words.endsWith(reason) === true;
  }

  readonly #play = (): void => this.#client.resumePlayback();

  /** Returns the peers in the room, and notes them. */
  #peopleOf({ peers, speaking }: InRoom): Partial<PageState> {
    const { peer: own, muted } = this.#client;
    const kind = this.#client.transport ?? 'webrtc';
    const self = { peer: own, kind, isSelf: true, muted, gain: 1 } as const;
    const others = [...peers.values()].map((peer) => ({
      ...peer,
      isSelf: false,
      gain: this.#client.volumeOf(peer.peer),
    }));
    const people = [self, ...others];
    const levelOf = (peer: string) =>
      speaking.has(peer) ? (speaking.get(peer) ?? UNKNOWN_LEVEL_DBOV) : undefined;
    const names = new Set(peers.keys());
    const known = this.#people ?? names; // peers that were in the room before us did not join
    const comings = comingsOf(known, names);
    this.#people = names;
    return {
      people: people.map((person) => withLevel(person, levelOf(person.peer))),
      isAlone: peers.size === 0 && !this.#isTrial,
      ...(comings !== '' && { comings }),
    };
  }
}
