import type { Account } from '../accounts/accounts.ts';
import { type Credentials, mayPublish } from '../accounts/authenticator.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { ClientMessages } from '../protocol/client-messages.ts';
import {
  errorMessage,
  type LeaveReason,
  type MessageId,
  type PeerKind,
  type ServerMessage,
} from '../protocol/messages.ts';
import { ECHO_ROOM } from '../protocol/names.ts';
import { echoRoomOf } from '../rooms/echo.ts';
import type { Timings } from '../../config/timings.ts';
import type { ClientConnection } from '../rooms/peer.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import { WebSocketPeer } from '../rooms/websocket-peer.ts';
import type { ClientAudio } from './client-audio.ts';
import type { MissedEvents } from './send-queue.ts';
import type { SuspendedPeer, SuspendedPeers } from './suspended-peers.ts';
import type { FairScheduler } from './turns.ts';
import { type RoomPeer, WayChange, type Ways } from './way-change.ts';

/** State of a client. The parts that it has in a room exist only in that state. */
type State =
  { name: 'lobby' } | { name: 'in_room'; room: string; peer: RoomPeer } | { name: 'closed' };

type Place = { room: string; kind: PeerKind };

export type PresenceParts = {
  rooms: RoomRegistry;
  places: SuspendedPeers;
  /**
   * Checks that the client may join a room; `isNew` if it is in none, and none is kept for it.
   * @throws {PartylineError} `minutes_exhausted`, `overloaded`
   */
  checkJoin: (account: Account, isNew: boolean) => Promise<void>;
  /** Called when the client is in another room, or in none. */
  onPlace: (room: string | undefined, kind: PeerKind) => void;
  /** Called when the client hears the whole room, so that its former connection is no longer needed. */
  onSettled: (room: string) => void;
  /**
   * Gives up the place that the client has on another node.
   * @returns the place; undefined if it has none, if it has ended, or was given up by being in another room
   */
  giveUpElsewhere: (reason: LeaveReason) => Place | undefined;
  requestLimits: { turns: FairScheduler };
  credentials: Credentials;
  timings: Pick<Timings['sessions'], 'changesWithinMs'>;
};

type JoinMessage = ClientMessages['join'];
type PresenceClient = ClientConnection & { readonly account: Account };

/** Presence of one client: in the lobby, or in a room as one of its peers. */
export class Presence {
  readonly #client: PresenceClient;
  readonly #audio: ClientAudio;
  readonly #parts: PresenceParts;
  #state: State = { name: 'lobby' };
  /** Change in progress to another way into the client's present room. */
  #change: WayChange | undefined;
  /** True if a binary message has come after the last `join`. Read for every frame. */
  hasBinaryCome = false;

  constructor(client: PresenceClient, audio: ClientAudio, parts: PresenceParts) {
    this.#client = client;
    this.#audio = audio;
    this.#parts = parts;
  }

  get isClosed(): boolean {
    return this.#state.name === 'closed';
  }

  get isInRoom(): boolean {
    return this.#state.name === 'in_room';
  }

  /** Room in which the client is; undefined if it is in none. */
  get room(): string | undefined {
    return this.#state.name === 'in_room' ? this.#state.room : undefined;
  }

  /** True while the client hears each peer separately, by its consumers. */
  get isHearingApart(): boolean {
    return this.#state.name === 'in_room' && this.#state.peer.kind === 'webrtc';
  }

  /** The client's present or prepared browser peer; undefined if it has none. */
  get browser(): WebRtcPeer | undefined {
    if (this.#change?.after.kind === 'webrtc') return this.#change.after;
    if (this.#state.name !== 'in_room') return undefined;
    const { peer } = this.#state;
    return peer.kind === 'webrtc' ? peer : undefined;
  }

  /** Notes a message that is, or may be, a `join`. It is handled in its turn. */
  joinCame(): void {
    this.hasBinaryCome = false;
  }

  /**
   * Handles the first binary message after a `join`, which completes a change to the WebSocket, even one that
   * has not begun yet.
   */
  binaryCame(): void {
    this.hasBinaryCome = true;
    this.#change?.binaryCame();
  }

  /** Sends `rtp_flow` to a browser whose packets have stopped or resumed. To be called at intervals. */
  watchRtp(nowMs: number): void {
    if (this.#state.name === 'in_room' && this.#state.peer.kind === 'webrtc') {
      this.#state.peer.watchRtp(nowMs);
    }
  }

  /** Prepares the new place before the old one is left, so that a join that fails changes nothing. */
  async join(room: string, message: JoinMessage): Promise<void> {
    const current = this.#state;
    const isSameRoom = current.name === 'in_room' && current.room === room;
    if (isSameRoom && current.peer.kind === 'websocket' && !message.media) {
      this.#giveUpChange();
      this.#confirm(message.id, room, current.peer);
      return;
    }
    const isNew = current.name === 'lobby' && !this.#keptPlace();
    await this.#parts.checkJoin(this.#client.account, isNew);
    const kept = this.#keptPlace()?.place;
    if (kept?.room === room && kept.peer.kind === 'websocket' && !message.media) {
      this.resume(message.id);
      return;
    }
    // Clients that come at once have awaited the same things, so they open and enter rooms in turn.
    const { id } = this.#client.account;
    const { turns } = this.#parts.requestLimits;
    const { peer, isMuted } = await turns.run(id, () => this.#openPeer(room, message));
    await turns.run(id, () => this.#enter(room, message, peer));
    // An operator may have muted the client during the join.
    if (this.#audio.isMuted !== isMuted) await peer.setMuted(this.#audio.isMuted);
  }

  /** Changes to a prepared place; resolves when the client has been told. */
  async #enter(room: string, message: JoinMessage, peer: RoomPeer): Promise<void> {
    const current = this.#state;
    if (current.name === 'closed') {
      peer.close('closed');
      return;
    }
    this.#giveUpChange();
    const before = current.name === 'in_room' && current.room === room ? current.peer : undefined;
    if (before?.kind === 'websocket' && peer.kind === 'webrtc') {
      return this.#beginChange(room, message, { before, after: peer });
    }
    if (before?.kind === 'webrtc' && peer.kind === 'websocket') {
      return this.#beginChange(room, message, { before, after: peer });
    }
    // A former peer in the same room is closed after the new one has entered, so that the others
    // see no change.
    if (!before) this.#leaveFor('moved');
    this.#settle(room, peer);
    peer.enter();
    before?.close('moved');
    this.#takePlace()?.end('moved');
    this.#confirm(message.id, room, peer);
    peer.listen();
    this.#attach(peer);
    void peer.whenAllHeard().then(() => this.#parts.onSettled(room));
    this.#client.log.info({ room, kind: peer.kind }, 'room joined');
  }

  async #beginChange(room: string, { id }: JoinMessage, ways: Ways): Promise<void> {
    const { before, after } = ways;
    const { timings, credentials } = this.#parts;
    const limits = { withinMs: timings.changesWithinMs, mayPublish: mayPublish(credentials) };
    const change = new WayChange(ways, limits, {
      onBegun: () => this.#confirm(id, room, after),
      onDone: () => {
        this.#change = undefined;
        this.#changeOver(room, before, after, id);
      },
      onFailed: (fault) => {
        this.#change = undefined;
        this.#client.log.info({ room, kind: after.kind }, 'media not changed');
        this.#answer(id, errorMessage(fault));
      },
    });
    this.#change = change;
    await change.begin();
    if (this.hasBinaryCome) change.binaryCame();
  }

  /** Continues by the client's new way. */
  #changeOver(
    room: string,
    before: RoomPeer,
    after: RoomPeer,
    replyTo: MessageId | undefined,
  ): void {
    // A paused producer counts as muted.
    const isMutedNow = after.kind === 'websocket' && before.isMuted && !this.#audio.isMuted;
    const configured = isMutedNow
      ? this.#audio.configure({ type: 'configure', mute: true })
      : undefined;
    const { subscription, isMuted } = this.#audio;
    if (after.kind === 'websocket') after.takeOver(before, subscription, isMuted);
    else after.takeOver(before);
    this.#attach(after);
    before.close('moved');
    this.#settle(room, after);
    const { volume, mute } = this.#audio.describeSettings();
    this.#answer(replyTo, { type: 'media_changed', kind: after.kind, volume, mute });
    if (configured) this.#client.notify(configured);
    this.#client.log.info({ room, kind: after.kind }, 'media changed');
  }

  #giveUpChange(): void {
    this.#change?.cancel();
    this.#change = undefined;
  }

  /** Resumes the place that was kept for this peer on this node. */
  resume(replyTo?: MessageId): void {
    // The place stays kept for a client whose connection was lost again during its join.
    if (this.#state.name === 'closed') return;
    const kept = this.#takePlace();
    if (!kept) return;
    const { room, peer, release } = kept.place;
    this.#leaveFor('moved');
    if (peer.kind === 'websocket')
      peer.resume(this.#client, this.#audio.subscription, this.#audio.isMuted);
    else peer.resume(this.#client);
    release();
    this.#settle(room, peer);
    const joined = this.#describeJoin(room, peer);
    if (peer.kind === 'websocket') {
      this.#answer(replyTo, joined);
      peer.listen();
    } else {
      // It still has its transports.
      this.#answer(replyTo, { ...joined, consumers: peer.consumers() });
      peer.listenAgain();
    }
    this.#attach(peer);
    this.#client.log.info({ room, kind: peer.kind }, 'room resumed');
  }

  /** Sends the client the present state of its room in place of the events that it missed, and sound for which it needs nothing that it missed. */
  tellMissed(missed: MissedEvents): void {
    if (this.#state.name !== 'in_room') return;
    const { room, peer } = this.#state;
    if (missed.peers) {
      const consumers = peer.kind === 'webrtc' ? { consumers: peer.consumers() } : {};
      this.#client.notify({ ...this.#describeJoin(room, peer), ...consumers });
    }
    if (missed.peers || missed.speaking) peer.tellSpeakers();
    if (missed.sound && peer.kind === 'websocket') peer.soundMissed();
  }

  leave(reason: LeaveReason, replyTo?: MessageId): void {
    // To the other peers a client that came back to the lobby is still in the room of its kept
    // place.
    const kept = this.#state.name === 'lobby' ? this.#takePlace() : undefined;
    const here = this.#state.name === 'in_room' ? this.#state : kept?.place;
    const elsewhere = this.#parts.giveUpElsewhere(reason);
    const place: Place | undefined = here ? { room: here.room, kind: here.peer.kind } : elsewhere;
    if (!place) throw new PartylineError('bad_message', 'leave: not in a room.');
    const { room, kind } = place;
    this.#leaveFor(reason);
    kept?.end(reason);
    this.#answer(replyTo, { type: 'left', room, reason });
    this.#parts.onPlace(undefined, kind);
    this.#client.log.info({ room, reason }, 'room left');
  }

  /** Gives up the kept place of a client that has come back only to the lobby, here or on another node. */
  giveUpPlace(reason: LeaveReason): void {
    if (this.#state.name === 'lobby') this.#takePlace()?.end(reason);
    this.#parts.giveUpElsewhere(reason);
  }

  /**
   * Handles the end of the client's connection.
   * @param mayComeBack true if its place is kept
   * @returns the place to keep, if there is one
   */
  end(reason: LeaveReason, mayComeBack: boolean): { room: string; peer: RoomPeer } | undefined {
    const before = this.#state;
    this.#giveUpChange();
    this.#state = { name: 'closed' };
    if (before.name !== 'in_room') return undefined;
    if (mayComeBack) return before;
    before.peer.close(reason);
    return undefined;
  }

  /** @returns the peer, and its mute state when it was opened */
  async #openPeer(
    room: string,
    message: JoinMessage,
  ): Promise<{ peer: RoomPeer; isMuted: boolean }> {
    const name = room === ECHO_ROOM ? echoRoomOf(this.#client.name) : room;
    const lease = await this.#parts.rooms.acquire(this.#client.account.id, name);
    const { isMuted, subscription } = this.#audio;
    try {
      const peer = message.media
        ? await WebRtcPeer.open(lease, this.#client, message.rtp_capabilities, isMuted)
        : new WebSocketPeer(lease, this.#client, subscription, isMuted);
      return { peer, isMuted };
    } catch (fault) {
      lease.release();
      throw fault;
    }
  }

  #settle(room: string, peer: RoomPeer): void {
    this.#state = { name: 'in_room', room, peer };
    this.#parts.onPlace(room, peer.kind);
  }

  /**
   * Sends audio that was held during the join. To be called after the peer is in the room and the client has been told.
   */
  #attach(peer: RoomPeer): void {
    this.#audio.attach(peer.kind === 'websocket' ? peer : undefined);
  }

  #leaveFor(reason: LeaveReason): void {
    if (this.#state.name !== 'in_room') return;
    this.#giveUpChange();
    const { peer } = this.#state;
    this.#state = { name: 'lobby' };
    this.#audio.attach(undefined);
    peer.close(reason);
  }

  #keptPlace(): SuspendedPeer | undefined {
    return this.#parts.places.get(this.#client.account.id, this.#client.name);
  }

  #takePlace(): SuspendedPeer | undefined {
    return this.#parts.places.take(this.#client.account.id, this.#client.name);
  }

  #confirm(replyTo: MessageId | undefined, room: string, peer: RoomPeer): void {
    const webrtc = peer.kind === 'webrtc' ? { webrtc: peer.describe() } : {};
    this.#answer(replyTo, { ...this.#describeJoin(room, peer), ...webrtc });
  }

  #describeJoin(room: string, peer: RoomPeer) {
    return { type: 'joined', room, speaker: peer.speaker, peers: peer.others() } as const;
  }

  #answer(replyTo: MessageId | undefined, message: ServerMessage): void {
    this.#client.notify(replyTo === undefined ? message : { ...message, reply_to: replyTo });
  }
}
