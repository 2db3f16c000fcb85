import type { RoomKey, RoomList, RoomSummary } from '../../src/operator/schemas.ts';
import { element, part } from '../element.ts';
import { Entries, onPress, say } from './entries.ts';

const PART = 100;
/** The gateway tells no more at once. */
const MOST = 1000;

export type RoomsHandlers = {
  onChoose: (room: RoomKey) => void;
  /** Other rooms are wanted. */
  onChange: () => void;
};

/** The list of rooms, with the field that searches it. */
export class RoomsView {
  readonly #search = element('search', HTMLInputElement);
  readonly #more = element('more', HTMLButtonElement);
  readonly #tooMany = element('too-many', HTMLElement);
  readonly #none = element('no-rooms', HTMLElement);
  readonly #entries: Entries<RoomSummary>;
  #limit = PART;
  #chosen: string | undefined;

  constructor({ onChoose, onChange }: RoomsHandlers) {
    this.#entries = new Entries<RoomSummary>(
      element('rooms', HTMLUListElement),
      'room-entry',
      keyOf,
      (entry, key) => {
        const button = onPress(entry, '.room-button', () => onChoose(key));
        say(entry, '.title', key.room);
        return (room) => {
          button.setAttribute('aria-pressed', String(keyOf(room) === this.#chosen));
          showRoom(entry, room);
        };
      },
    );
    this.#search.addEventListener('input', () => {
      this.#limit = PART;
      onChange();
    });
    this.#more.addEventListener('click', () => {
      this.#limit = Math.min(MOST, this.#limit + PART);
      onChange();
    });
  }

  /** Query for the gateway. */
  get query(): { search: string; limit: number } {
    return { search: this.#search.value.trim(), limit: this.#limit };
  }

  show({ rooms, next }: RoomList, chosen: RoomKey | undefined): void {
    this.#chosen = chosen && keyOf(chosen);
    this.#entries.show(rooms);
    this.#more.hidden = next === undefined || this.#limit >= MOST;
    this.#tooMany.hidden = next === undefined || this.#limit < MOST;
    this.#none.hidden = rooms.length > 0;
    this.#none.textContent = this.query.search ? 'No room is called so.' : 'Nobody is in a room.';
  }

  /** Back to where a room was chosen. */
  focus(): void {
    const [chosen] = document.querySelectorAll<HTMLElement>('.room-button[aria-pressed="true"]');
    (chosen ?? this.#search).focus();
  }
}

const keyOf = ({ account_id, room }: RoomKey): string => `${account_id}/${room}`;

function showRoom(entry: HTMLElement, room: RoomSummary): void {
  const kinds = [
    ...(room.websocket > 0 ? [`${room.websocket} WebSocket`] : []),
    ...(room.webrtc > 0 ? [`${room.webrtc} ${room.webrtc === 1 ? 'browser' : 'browsers'}`] : []),
    ...(room.away > 0 ? [`${room.away} away`] : []),
  ];
  say(entry, '.facts', [`account ${room.account_id}`, ...kinds].join(' · '));
  say(entry, '.talking-text', `${room.talking} talking`);
  part(entry, '.talking', HTMLElement).hidden = room.talking === 0;
}
