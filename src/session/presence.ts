import type { Account } from '../accounts/accounts.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { ClientMessages } from '../protocol/client-messages.ts';
import type { LeaveReason, MessageId, PeerKind, ServerMessage } from '../protocol/messages.ts';
import { ECHO_ROOM } from '../protocol/names.ts';
import { echoRoomOf } from '../rooms/echo.ts';
import type { PeerOutlet } from '../rooms/peer.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import { WebSocketPeer } from '../rooms/websocket-peer.ts';
import type { ClientAudio } from './client-audio.ts';
import type { KeptPlace, KeptPlaces } from './kept-places.ts';
import type { Turns } from './turns.ts';

/** State of a client. Everything that it has in a room exists only in that state. */
type State =
  | { name: 'lobby' }
  | { name: 'in_room'; room: string; peer: WebSocketPeer | WebRtcPeer }
  | { name: 'closed' };

export type PresenceParts = {
  rooms: RoomRegistry;
  places: KeptPlaces;
  /**
   * Checks that the client may join a room; `isNew` if it is in none, and none is kept for it.
   * @throws {PartylineError} `minutes_exhausted`, `overloaded`
   */
  checkJoin: (account: Account, isNew: boolean) => Promise<void>;
  /** The client is in this room now, or in none. */
  onPlace: (room: string | undefined, kind: PeerKind) => void;
  /** It hears all that is said in its room: it needs no other connection any more. */
  onSettled: (room: string) => void;
  requestLimits: { turns: Turns };
};

type JoinMessage = ClientMessages['join'];
type Outlet = PeerOutlet & { readonly account: Account };

/** Where one client is: in the lobby, or in a room as one of its peers. */
export class Presence {
  readonly #outlet: Outlet;
  readonly #audio: ClientAudio;
  readonly #parts: PresenceParts;
  #state: State = { name: 'lobby' };

  constructor(outlet: Outlet, audio: ClientAudio, parts: PresenceParts) {
    this.#outlet = outlet;
    this.#audio = audio;
    this.#parts = parts;
  }

  get isClosed(): boolean {
    return this.#state.name === 'closed';
  }

  get isInRoom(): boolean {
    return this.#state.name === 'in_room';
  }

  /** The browser that the client is in its room; undefined if it is none, or is in no room. */
  get browser(): WebRtcPeer | undefined {
    if (this.#state.name !== 'in_room') return undefined;
    const { peer } = this.#state;
    return peer.kind === 'webrtc' ? peer : undefined;
  }

  /** Prepares the new place before the old one is left, so that a join that fails changes nothing. */
  async join(room: string, message: JoinMessage): Promise<void> {
    const current = this.#state;
    const isThere = current.name === 'in_room' && current.room === room;
    if (isThere && current.peer.kind === 'websocket' && !message.media) {
      this.#confirm(message.id, room, current.peer);
      return;
    }
    const isNew = current.name === 'lobby' && !this.#keptPlace();
    await this.#parts.checkJoin(this.#outlet.account, isNew);
    const kept = this.#keptPlace()?.place;
    if (kept?.room === room && kept.peer.kind === 'websocket' && !message.media) {
      this.resume(message.id);
      return;
    }
    // Many that come at once have waited for the same things: they open rooms and enter them in turn, as requests are begun.
    const { id } = this.#outlet.account;
    const { turns } = this.#parts.requestLimits;
    const peer = await turns.run(id, () => this.#openPeer(room, message));
    await turns.run(id, () => this.#enter(room, message, peer, current));
  }

  /** Changes over to a place that has been prepared. @param current where the client was when it asked for that */
  #enter(
    room: string,
    message: JoinMessage,
    peer: WebSocketPeer | WebRtcPeer,
    current: State,
  ): void {
    if (this.#state.name === 'closed') {
      peer.close('closed');
      return;
    }
    const isThere = current.name === 'in_room' && current.room === room;
    // A former peer in the same room is closed after the new one has entered, so that the others see no change.
    const before = isThere && current.peer.kind === peer.kind ? current.peer : undefined;
    if (!before) this.#leaveFor('moved');
    this.#settle(room, peer);
    peer.enter();
    before?.close('moved');
    this.#takePlace()?.end('moved');
    this.#confirm(message.id, room, peer);
    peer.listen();
    this.#attach(peer);
    void peer.hearsAll().then(() => this.#parts.onSettled(room));
    this.#outlet.log.info({ room, kind: peer.kind }, 'joined');
  }

  /** Takes up the place that was kept for this peer on this node. */
  resume(replyTo?: MessageId): void {
    const kept = this.#takePlace();
    if (!kept || this.#state.name === 'closed') return;
    const { room, peer, release } = kept.place;
    this.#leaveFor('moved');
    if (peer.kind === 'websocket')
      peer.resume(this.#outlet, this.#audio.hearing, this.#audio.isMuted);
    else peer.resume(this.#outlet);
    release();
    this.#settle(room, peer);
    const joined = this.#describeJoin(room, peer);
    if (peer.kind === 'websocket') {
      this.#answer(replyTo, joined);
      peer.listen();
    } else {
      // It has its transports yet.
      this.#answer(replyTo, { ...joined, consumers: peer.consumers() });
      peer.listenAgain();
    }
    this.#attach(peer);
    this.#outlet.log.info({ room, kind: peer.kind }, 'resumed');
  }

  leave(reason: LeaveReason, replyTo?: MessageId): void {
    // To the other peers a client that came back to the lobby is still in the room of its kept place.
    const kept = this.#state.name === 'lobby' ? this.#takePlace() : undefined;
    const place = this.#state.name === 'in_room' ? this.#state : kept?.place;
    if (!place) throw new PartylineError('bad_message', 'leave: not in a room.');
    const { room, peer } = place;
    this.#leaveFor(reason);
    kept?.end(reason);
    this.#answer(replyTo, { type: 'left', room, reason });
    this.#parts.onPlace(undefined, peer.kind);
    this.#outlet.log.info({ room, reason }, 'left');
  }

  /** The client will not come back to the place that is kept for it, if it has come no further than the lobby since. */
  giveUpPlace(reason: LeaveReason): void {
    if (this.#state.name === 'lobby') this.#takePlace()?.end(reason);
  }

  /**
   * The client's connection has ended.
   * @param mayComeBack then its place is kept
   * @returns the place to be kept, if there is one
   */
  end(
    reason: LeaveReason,
    mayComeBack: boolean,
  ): { room: string; peer: WebSocketPeer | WebRtcPeer } | undefined {
    const before = this.#state;
    this.#state = { name: 'closed' };
    if (before.name !== 'in_room') return undefined;
    if (mayComeBack) return before;
    before.peer.close(reason);
    return undefined;
  }

  async #openPeer(room: string, message: JoinMessage): Promise<WebSocketPeer | WebRtcPeer> {
    const name = room === ECHO_ROOM ? echoRoomOf(this.#outlet.name) : room;
    const lease = await this.#parts.rooms.acquire(this.#outlet.account.id, name);
    try {
      return message.media
        ? await WebRtcPeer.open(lease, this.#outlet, message.rtp_capabilities, this.#audio.isMuted)
        : new WebSocketPeer(lease, this.#outlet, this.#audio.hearing, this.#audio.isMuted);
    } catch (fault) {
      lease.release();
      throw fault;
    }
  }

  #settle(room: string, peer: WebSocketPeer | WebRtcPeer): void {
    this.#state = { name: 'in_room', room, peer };
    this.#parts.onPlace(room, peer.kind);
  }

  /**
   * Sends audio that was held during the join: the room must know the peer by then, and the client must have been
   * told that it joined.
   */
  #attach(peer: WebSocketPeer | WebRtcPeer): void {
    this.#audio.attach(peer.kind === 'websocket' ? peer : undefined);
  }

  #leaveFor(reason: LeaveReason): void {
    if (this.#state.name !== 'in_room') return;
    const { peer } = this.#state;
    this.#state = { name: 'lobby' };
    this.#audio.attach(undefined);
    peer.close(reason);
  }

  #keptPlace(): KeptPlace | undefined {
    return this.#parts.places.get(this.#outlet.account.id, this.#outlet.name);
  }

  #takePlace(): KeptPlace | undefined {
    return this.#parts.places.take(this.#outlet.account.id, this.#outlet.name);
  }

  #confirm(replyTo: MessageId | undefined, room: string, peer: WebSocketPeer | WebRtcPeer): void {
    const webrtc = peer.kind === 'webrtc' ? { webrtc: peer.describe() } : {};
    this.#answer(replyTo, { ...this.#describeJoin(room, peer), ...webrtc });
  }

  #describeJoin(room: string, peer: WebSocketPeer | WebRtcPeer) {
    return { type: 'joined', room, speaker: peer.speaker, peers: peer.others() } as const;
  }

  #answer(replyTo: MessageId | undefined, message: ServerMessage): void {
    this.#outlet.notify(replyTo === undefined ? message : { ...message, reply_to: replyTo });
  }
}
