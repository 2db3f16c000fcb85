import type { RefObject } from 'preact';
import { useRef } from 'preact/hooks';
import type { RoomReference, RoomSummary } from '../../src/operator/schemas.ts';
import type { Overview, OverviewState } from './overview.ts';
import { useFocusButton } from '../use-focus-button.ts';

/** The list of rooms, with the field that searches it. */
export function RoomList({
  overview,
  state: { search, rooms, noRooms, roomsEnd, chosen },
}: {
  overview: Overview;
  state: OverviewState;
}) {
  const title = useRef<HTMLHeadingElement>(null);
  return (
    <section aria-labelledby="rooms-title">
      <h2 id="rooms-title" tabIndex={-1} ref={title}>
        Rooms
      </h2>
      <label for="search" class="visually-hidden">
        Search rooms by name
      </label>
      <input
        id="search"
        type="search"
        maxLength={128}
        placeholder="Search rooms"
        autocomplete="off"
        spellcheck={false}
        value={search}
        onInput={({ currentTarget }) => overview.search(currentTarget.value)}
      />
      <ul id="rooms" class="plain rooms">
        {rooms?.rooms.map((room) => (
          <RoomEntry
            key={keyOf(room)}
            room={room}
            isChosen={chosen !== undefined && keyOf(room) === keyOf(chosen)}
            onChoose={() => overview.choose({ account_id: room.account_id, room: room.room })}
          />
        ))}
      </ul>
      {noRooms && (
        <p id="no-rooms" class="quiet">
          {noRooms}
        </p>
      )}
      {roomsEnd === 'more' && <MoreButton onMore={() => overview.showMore()} title={title} />}
      {roomsEnd === 'too_many' && (
        <p id="too-many" class="quiet">
          These are the first 1000: search for others.
        </p>
      )}
    </section>
  );
}

/** The button that shows more rooms. @param title takes the focus when the button goes */
function MoreButton({
  onMore,
  title,
}: {
  onMore: () => void;
  title: RefObject<HTMLElement | null>;
}) {
  const button = useFocusButton(title);
  return (
    <button id="more" type="button" ref={button} onClick={onMore}>
      Show more
    </button>
  );
}

function RoomEntry({
  room,
  isChosen,
  onChoose,
}: {
  room: RoomSummary;
  isChosen: boolean;
  onChoose: () => void;
}) {
  const kinds = [
    ...(room.websocket > 0 ? [`${room.websocket} WebSocket`] : []),
    ...(room.webrtc > 0 ? [`${room.webrtc} ${room.webrtc === 1 ? 'browser' : 'browsers'}`] : []),
    ...(room.away > 0 ? [`${room.away} kept`] : []),
  ];
  return (
    <li>
      <button class="room-button" type="button" aria-pressed={isChosen} onClick={onChoose}>
        <bdi class="title">{room.room}</bdi>
        {room.talking > 0 && (
          <span class="talking">
            <span class="dot" aria-hidden="true" />
            <span class="talking-text">{room.talking} talking</span>
          </span>
        )}
        <span class="quiet facts">{[`account ${room.account_id}`, ...kinds].join(' · ')}</span>
      </button>
    </li>
  );
}

const keyOf = ({ account_id, room }: RoomReference): string => `${account_id}/${room}`;
