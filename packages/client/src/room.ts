import type { ServerMessage } from '../../../src/protocol/messages.ts';
import type { Connection, MessageOf } from './connection.ts';
import type { RequestError } from './errors.ts';
import type { AudioParts, RoomAudio, SoundSettings } from './room-audio.ts';
import type { AudioAssets, RemotePeer } from './state.ts';
import { Wire } from './wire.ts';

type Joined = MessageOf<'joined'>;
type OpenAudio = (parts: AudioParts) => RoomAudio;

type RoomHandlers = {
  /** Someone came, went, speaks, can be heard. */
  changed: () => void;
  fault: (message: string) => void;
  playbackBlocked: () => void;
  /** The audio's path is gone for good: the room must be joined again. */
  mediaLost: (error: RequestError) => void;
};

/** Parts that a room is opened with. */
type RoomParts = {
  /** Our own name, which is not among the others. */
  self: string;
  connection: Connection;
  joined: Joined;
  openAudio: OpenAudio;
  settings: SoundSettings;
  assets: AudioAssets;
  handlers: RoomHandlers;
};

/** One stay in a room: who is there, who speaks, and the audio, which goes on while there is no connection. */
export class Room {
  readonly name: string;
  readonly peers = new Map<string, RemotePeer>();
  speaking: ReadonlyMap<string, number | undefined> = new Map();
  readonly #parts: RoomParts;
  readonly #wire: Wire;
  readonly #audio: RoomAudio;

  /** @throws when the answer to our join does not carry what the transport needs */
  constructor(parts: RoomParts) {
    this.name = parts.joined.room;
    this.#parts = parts;
    this.#wire = new Wire(parts.connection);
    this.#audio = this.#openAudio(parts.openAudio, parts.joined);
    this.#meet(parts.joined.peers);
  }

  get audio(): RoomAudio {
    return this.#audio;
  }

  /**
   * The connection is lost.
   * @returns whether the room can go on over another; if not, it is to be closed, and joined anew
   */
  suspend(): boolean {
    this.#wire.suspend();
    return !this.#wire.isInDoubt;
  }

  /**
   * Goes on over another connection, with what has changed in the meantime.
   * @returns whether it can; if not, sound goes another way than this room knows, and it is to be joined anew
   */
  resume(connection: Connection, joined: Joined): boolean {
    if ((joined.consumers !== undefined) !== (this.#audio.transport === 'webrtc')) return false;
    this.#wire.resume(connection);
    this.#audio.resume(joined);
    this.speaking = new Map();
    this.#meet(joined.peers);
    return true;
  }

  /** Ends the audio; calls nobody. */
  close(): void {
    this.#audio.close();
    this.#wire.close();
  }

  /** Takes a message that the gateway sent while we are in this room. */
  receive(message: ServerMessage): void {
    switch (message.type) {
      case 'peer_joined':
        if (message.peer === this.#parts.self) return;
        this.#note(message);
        break;
      case 'peer_changed': {
        const known = this.peers.get(message.peer);
        if (!known) return;
        const { kind = known.kind, muted = known.muted } = message;
        this.#note({ ...known, kind, muted });
        break;
      }
      case 'peer_left':
        this.peers.delete(message.peer);
        break;
      case 'speaking':
        this.speaking = new Map(message.peers.map(({ peer, level_dbov }) => [peer, level_dbov]));
        break;
      default:
        this.#audio.receive(message);
        return;
    }
    this.#parts.handlers.changed();
  }

  /** These are the others, and nobody else. */
  #meet(peers: Joined['peers']): void {
    this.peers.clear();
    for (const peer of peers) if (peer.peer !== this.#parts.self) this.#note(peer);
  }

  #note({ peer, kind, muted }: Omit<RemotePeer, 'track'>): void {
    const track = this.#audio.trackOf(peer);
    this.peers.set(peer, { peer, kind, muted, ...(track && { track }) });
  }

  #trackChanged(peer: string): void {
    const known = this.peers.get(peer);
    if (!known) return; // has left already, or is about to be announced
    this.#note(known);
    this.#parts.handlers.changed();
  }

  #openAudio(openAudio: OpenAudio, joined: Joined): RoomAudio {
    const { settings, assets, handlers } = this.#parts;
    return openAudio({
      joined,
      wire: this.#wire,
      settings,
      assets,
      handlers: {
        trackChanged: (peer) => this.#trackChanged(peer),
        pathChanged: handlers.changed,
        playbackBlocked: handlers.playbackBlocked,
        fault: handlers.fault,
        lost: handlers.mediaLost,
      },
    });
  }
}
