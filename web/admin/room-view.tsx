import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { meterShare } from '../../packages/client/src/level.ts';
import type {
  PeerDescription,
  RoomDescription,
  RoomReference,
} from '../../src/operator/schemas.ts';
import { Meter, NBSP } from './meter.tsx';
import type { Overview, OverviewState } from './overview.ts';
import { useFocusButton } from '../use-focus-button.ts';

const KIND_WORDS: Record<PeerDescription['kind'], string> = {
  webrtc: 'Browser',
  websocket: 'WebSocket',
};

/** Chosen room, with its peers. */
export function RoomView({
  overview,
  chosen,
  room,
}: {
  overview: Overview;
  chosen: RoomReference;
  room: OverviewState['room'];
}) {
  const title = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => title.current?.focus(), [chosen]);

  const close = () => {
    // The focus goes back to where the room was chosen.
    const button = document.querySelector<HTMLElement>('.room-button[aria-pressed="true"]');
    (button ?? document.getElementById('search'))?.focus();
    overview.choose(undefined);
  };
  const isEmpty = room === 'empty';
  const description = isEmpty ? undefined : room;

  return (
    <section id="room" aria-labelledby="room-name">
      <header class="room-title">
        <h2 id="room-name" tabIndex={-1} ref={title}>
          <bdi>{chosen.room}</bdi>
        </h2>
        <button id="close-room" type="button" onClick={close}>
          Close
        </button>
      </header>
      <p id="room-facts" class="quiet">
        {isEmpty ? 'This room has no peers any more.' : factsOf(chosen, description)}
      </p>
      <ul id="peers" class="plain peers">
        {description?.peers.map((peer) => (
          <PeerEntry
            key={`${peer.node}/${peer.peer}`}
            peer={peer}
            nodeName={overview.nameOf(peer.node)}
            title={title}
            onKick={() => void overview.kick(peer)}
          />
        ))}
      </ul>
    </section>
  );
}

function factsOf({ account_id }: RoomReference, room: RoomDescription | undefined): string {
  if (!room) return `account ${account_id}`;
  const peers = room.peers.length;
  const nodes = new Set(room.peers.map(({ node }) => node)).size;
  return [
    `account ${account_id}`,
    `${peers} ${peers === 1 ? 'peer' : 'peers'}`,
    `on ${nodes} ${nodes === 1 ? 'node' : 'nodes'}`,
  ].join(' · ');
}

/** A peer of the room. @param title of the room, which takes the focus of a button that goes with its peer */
function PeerEntry({
  peer,
  nodeName,
  title,
  onKick,
}: {
  peer: PeerDescription;
  nodeName: string;
  title: RefObject<HTMLElement | null>;
  onKick: () => void;
}) {
  const { peer: name, level_dbov: level, audio } = peer;
  const isTalking = peer.talking ?? level !== undefined;
  const away = peer.away ? ['connection lost, place kept'] : [];
  const kick = useFocusButton(title);
  return (
    <li class="card peer" data-peer={name} data-speaking={String(isTalking)}>
      <div class="who">
        <bdi class="title">{name}</bdi>
        <span class="quiet facts">
          {[KIND_WORDS[peer.kind], `on ${nodeName}`, ...away].join(' · ')}
        </span>
      </div>
      <div class="loudness">
        <Meter share={level === undefined ? 0 : meterShare(level)} />
        <span class="dbov quiet">{loudnessOf(isTalking, level)}</span>
      </div>
      {audio && <p class="audio quiet">{statsOf(audio)}</p>}
      <button
        class="kick danger"
        type="button"
        aria-label={`Kick ${name}`}
        onClick={onKick}
        ref={kick}
      >
        Kick…
      </button>
    </li>
  );
}

/** Returns a level in words; a peer that talks in an unknown format has none. */
function loudnessOf(isTalking: boolean, level: number | undefined): string {
  if (level !== undefined) return `${level}${NBSP}dBov`;
  return isTalking ? 'talking' : 'silent';
}

function statsOf(audio: NonNullable<PeerDescription['audio']>): string {
  return [
    `dropped ${audio.dropped_ms}${NBSP}ms`,
    `concealed ${audio.concealed_ms}${NBSP}ms`,
    `buffered ${audio.buffered_ms}${NBSP}ms`,
    `drift ${audio.drift_ppm}${NBSP}ppm`,
  ].join(' · ');
}
