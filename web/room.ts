import type { Device } from 'mediasoup-client';
import type { ServerMessage } from '../src/protocol/messages.ts';
import type { Connection, MessageOf, RequestError } from './connection.ts';
import { MediaSession } from './media.ts';
import type { RemotePeer } from './state.ts';
import { Wire } from './wire.ts';

type Joined = MessageOf<'joined'>;

type RoomHandlers = {
  /** Someone came, went, speaks, can be heard. */
  changed: () => void;
  fault: (message: string) => void;
  playbackBlocked: () => void;
  /** The audio's path is gone for good: the room must be joined again. */
  mediaLost: (error: RequestError) => void;
};

/** One stay in a room: who is there, who speaks, and the audio, which goes on while there is no connection. */
export class Room {
  readonly name: string;
  readonly media: MediaSession;
  readonly peers = new Map<string, RemotePeer>();
  speaking: ReadonlyMap<string, number | undefined> = new Map();
  readonly #self: string;
  readonly #wire: Wire;
  readonly #handlers: RoomHandlers;

  /**
   * @param self our own name, which is not among the others
   * @throws when the answer to our join carries no WebRTC
   */
  constructor(
    self: string,
    connection: Connection,
    device: Device,
    { room: name, peers, webrtc }: Joined,
    muted: boolean,
    handlers: RoomHandlers,
  ) {
    if (!webrtc) throw new Error('The gateway offers no WebRTC here.');
    this.name = name;
    this.#self = self;
    this.#handlers = handlers;
    this.#wire = new Wire(connection);
    this.media = new MediaSession(device, webrtc, this.#wire.request, muted, {
      trackChanged: (peer) => this.#trackChanged(peer),
      pathChanged: handlers.changed,
      playbackBlocked: handlers.playbackBlocked,
      fault: handlers.fault,
      lost: handlers.mediaLost,
    });
    this.#meet(peers);
  }

  /**
   * The connection is lost.
   * @returns whether the room can go on over another; if not, it is to be closed, and joined anew
   */
  suspend(): boolean {
    this.#wire.suspend();
    return !this.#wire.isInDoubt;
  }

  /** Goes on over another connection, with what has changed in the meantime. */
  resume(connection: Connection, { peers, consumers = [] }: Joined): void {
    this.#wire.resume(connection);
    this.media.consumeOnly(consumers);
    this.speaking = new Map();
    this.#meet(peers);
  }

  /** Ends the audio; calls nobody. */
  close(): void {
    this.media.close();
    this.#wire.close();
  }

  /** Takes a message that the gateway sent while we are in this room. */
  receive(message: ServerMessage): void {
    switch (message.type) {
      case 'peer_joined':
        if (message.peer === this.#self) return;
        this.#note(message);
        break;
      case 'peer_changed': {
        const known = this.peers.get(message.peer);
        if (!known) return;
        this.#note({
          ...known,
          muted: message.muted ?? known.muted,
          kind: message.kind ?? known.kind,
        });
        break;
      }
      case 'peer_left':
        this.peers.delete(message.peer);
        break;
      case 'speaking':
        this.speaking = new Map(message.peers.map(({ peer, level_dbov }) => [peer, level_dbov]));
        break;
      case 'new_consumer':
        this.media.consume(message);
        return;
      case 'consumer_closed':
        this.media.closeConsumer(message.consumer_id);
        return;
      default:
        return;
    }
    this.#handlers.changed();
  }

  /** These are the others, and nobody else. */
  #meet(peers: Joined['peers']): void {
    this.peers.clear();
    for (const peer of peers) if (peer.peer !== this.#self) this.#note(peer);
  }

  #note({ peer, kind, muted }: Omit<RemotePeer, 'track'>): void {
    const track = this.media.trackOf(peer);
    this.peers.set(peer, { peer, kind, muted, ...(track && { track }) });
  }

  #trackChanged(peer: string): void {
    const known = this.peers.get(peer);
    if (!known) return; // has left already, or is about to be announced
    this.#note(known);
    this.#handlers.changed();
  }
}
