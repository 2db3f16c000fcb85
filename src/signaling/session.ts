import type { FastifyBaseLogger } from 'fastify';
import type { WebSocket } from 'ws';
import type { Account } from '../accounts/accounts.ts';
import { checkRoomGrant, type Credentials } from '../accounts/authenticator.ts';
import type { Codecs } from '../audio/codecs.ts';
import { FRAME_MS } from '../audio/format.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { PeerOutlet } from '../rooms/peer.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import { WebSocketPeer } from '../rooms/websocket-peer.ts';
import { BadMessageBudget } from './bad-message-budget.ts';
import { type AudioPreferences, ClientAudio } from './client-audio.ts';
import {
  type ClientMessage,
  type ClientMessages,
  errorMessage,
  type LeaveReason,
  MessageError,
  parseClientMessage,
  type ServerMessage,
} from '../protocol/messages.ts';
import { minutesExhausted } from '../usage/quota.ts';
import { Heartbeat } from './heartbeat.ts';
import { checkName, LOBBY } from './names.ts';
import { SendQueue } from './send-queue.ts';
import { handleWebRtcMessage } from './webrtc-messages.ts';

const HEARTBEAT_MS = 15_000;
const STATS_EVERY_MS = 5000;
const MAX_MESSAGE_BYTES = 64 * 1024;
/** Messages that wait for one that takes time (a join); more than a client can mean. */
const MAX_WAITING_MESSAGES = 64;

/** Where the client is. What it has there exists only in that state. */
type State =
  | { name: 'lobby' }
  | { name: 'in_room'; room: string; peer: WebSocketPeer | WebRtcPeer }
  | { name: 'closed' };

export type SessionParts = {
  id: string;
  credentials: Credentials;
  /** The `peer` of the query. */
  peer: string;
  /**
   * Whether the client may go into a room; `isNew` if it is in none.
   * @throws {PartylineError} `minutes_exhausted`, `overloaded`
   */
  checkJoin: (account: Account, isNew: boolean) => Promise<void>;
  audio: AudioPreferences;
  /** Whether the client wants to be told how its audio fares. */
  wantsStats: boolean;
  limits: { max_ccu: number; current_ccu: number; remaining_minutes: number };
  rooms: RoomRegistry;
  codecs: Codecs;
  log: FastifyBaseLogger;
  /** Called once, when all that the session had is let go. */
  onClosed: (reason: LeaveReason, droppedFrames: number) => void;
};

/** One client on one WebSocket, from `welcome` to close: lobby, rooms, and its frames both ways. */
export class Session implements PeerOutlet {
  readonly name: string;
  readonly log: FastifyBaseLogger;
  readonly #socket: WebSocket;
  readonly #parts: SessionParts;
  readonly #sendQueue: SendQueue;
  readonly #audio: ClientAudio;
  readonly #heartbeat: Heartbeat;
  readonly #badMessages = new BadMessageBudget();
  #account: Account;
  #state: State = { name: 'lobby' };
  #handling: Promise<void> = Promise.resolve();
  #waitingMessages = 0;
  #statsAtMs = performance.now();
  #hasBeenToldNotToPublish = false;

  constructor(socket: WebSocket, parts: SessionParts) {
    this.name = parts.peer;
    this.#account = parts.credentials.account;
    this.log = parts.log;
    this.#socket = socket;
    this.#parts = parts;
    this.#sendQueue = new SendQueue(socket, () =>
      this.fail(new PartylineError('slow_consumer', 'The client has not read for 5 seconds.')),
    );
    this.#audio = new ClientAudio(parts.audio, parts.codecs, this);
    this.#heartbeat = new Heartbeat(socket, parts.wantsStats ? STATS_EVERY_MS : HEARTBEAT_MS);
    socket.on('message', (data: Buffer, isBinary: boolean) => this.#receive(data, isBinary));
    socket.on('close', () => this.#end('closed'));
    // ws closes the socket itself after a protocol error, which is then told by 'close'.
    socket.on('error', (fault) => this.log.debug({ err: fault }, 'socket error'));
  }

  /** Greets the client and, if it asked for a room at connection, takes it there. */
  start(room: string): void {
    const { id, limits } = this.#parts;
    this.notify({
      type: 'welcome',
      peer: this.name,
      room: LOBBY,
      session_id: id,
      audio: this.#audio.describe(),
      limits,
      heartbeat_ms: HEARTBEAT_MS,
    });
    this.log.info('session started');
    if (room !== LOBBY) this.#enqueue({ type: 'join', room });
  }

  get id(): string {
    return this.#parts.id;
  }

  /** The account as it is now. */
  get account(): Account {
    return this.#account;
  }

  /**
   * The account has changed.
   * @param keyIds the keys that are still good
   */
  accountChanged(account: Account, keyIds: Set<string>): void {
    this.#account = account;
    if (account.status !== 'active') {
      this.fail(new PartylineError('forbidden', `The account is ${account.status}.`));
    } else if (!keyIds.has(this.#parts.credentials.keyId)) {
      this.fail(new PartylineError('unauthorized', 'The API key has been revoked.'));
    }
  }

  /** The month's minutes are used up: who is in a room must go; the lobby costs nothing. */
  exhaust(): void {
    if (this.#state.name !== 'in_room') return;
    this.#leaveRoom('minutes_exhausted');
    this.fail(minutesExhausted(Date.now()));
  }

  notify(message: ServerMessage): void {
    if (this.#state.name !== 'closed') this.#sendQueue.sendText(JSON.stringify(message));
  }

  sendAudio(frame: Buffer): void {
    if (!this.#audio.isInDoubt) this.#sendQueue.sendAudio(frame);
  }

  /** Tells the client why and closes with the matching code. Whatever is not a fault of the client is logged. */
  fail(fault: unknown): void {
    if (this.#state.name === 'closed') return;
    const error = PartylineError.from(fault);
    if (error.code === 'internal_error') this.log.error({ err: fault }, 'session failed');
    this.#sendError(error);
    this.#socket.close(error.kind.closeCode, error.code);
    this.#end(error.code);
  }

  /** The same peer has connected again. */
  replace(): void {
    this.fail(new PartylineError('replaced', 'The same peer has connected again.'));
  }

  /** The node goes away. */
  drain(): void {
    this.fail(new PartylineError('draining', 'This node is going away; reconnect.'));
  }

  /** Pings when it is time to, tells how the audio fares, and gives up on a client that has been silent for 30 s. */
  beat(nowMs: number): void {
    if (!this.#heartbeat.beat(nowMs)) {
      this.fail(new PartylineError('heartbeat_timeout', 'Nothing was heard for 30 seconds.'));
      this.#socket.terminate();
      return;
    }
    const isDue = nowMs - this.#statsAtMs >= STATS_EVERY_MS;
    if (this.#parts.wantsStats && isDue) this.#sendStats(nowMs);
  }

  #sendStats(nowMs: number): void {
    this.#statsAtMs = nowMs;
    const { ingest_ms, drift_ppm, dropped_ms, concealed_ms } = this.#audio.describeFortunes();
    const { rttMs } = this.#heartbeat;
    const unreadMs = this.#sendQueue.droppedFrames * FRAME_MS;
    this.notify({
      type: 'stats',
      ingest_ms,
      drift_ppm,
      dropped_ms: dropped_ms + unreadMs,
      concealed_ms,
      send_queue_ms: Math.round(this.#sendQueue.unsentMs),
      ...(rttMs === undefined ? {} : { rtt_ms: Math.round(rttMs * 10) / 10 }),
    });
  }

  #receive(data: Buffer, isBinary: boolean): void {
    if (this.#state.name === 'closed') return;
    const nowMs = this.#heartbeat.heard();
    if (data.length > MAX_MESSAGE_BYTES) {
      this.fail(new PartylineError('message_too_big', 'A message may have 64 KiB.'));
    } else if (isBinary) {
      this.#receiveAudio(data, nowMs);
    } else {
      this.#receiveText(data.toString());
    }
  }

  /** A message of no bytes is nobody's. */
  #receiveAudio(frame: Buffer, nowMs: number): void {
    if (frame.length === 0) return;
    if (this.#mayPublish) this.#audio.receive(frame, nowMs);
    else this.#refuseToPublish();
  }

  #receiveText(text: string): void {
    try {
      this.#enqueue(parseClientMessage(text));
    } catch (fault) {
      this.#refuse(fault, fault instanceof MessageError ? fault.replyTo : undefined);
    }
  }

  get #mayPublish(): boolean {
    return this.#parts.credentials.grant?.publish ?? true;
  }

  /** Said once: a client that cannot be changed goes on all the same. */
  #refuseToPublish(): void {
    if (this.#hasBeenToldNotToPublish) return;
    this.#hasBeenToldNotToPublish = true;
    this.#sendError(new PartylineError('forbidden', 'The token does not allow to publish.'));
  }

  /** Messages are handled one after the other, so that a join during a join is just the next one. */
  #enqueue(message: ClientMessage): void {
    if (this.#waitingMessages >= MAX_WAITING_MESSAGES) {
      this.fail(new PartylineError('bad_message', 'Too many messages at once.'));
      return;
    }
    this.#waitingMessages += 1;
    this.#handling = this.#handling.then(async () => {
      try {
        if (this.#state.name !== 'closed') await this.#handle(message);
      } catch (fault) {
        this.#refuse(fault, message.id);
      } finally {
        this.#waitingMessages -= 1;
      }
    });
  }

  /** A fault that leaves the socket open, in the state in which it was; unless there are too many. */
  #refuse(fault: unknown, replyTo: string | undefined): void {
    const error = PartylineError.from(fault);
    if (error.code === 'internal_error') this.log.error({ err: fault }, 'message failed');
    if (error.code === 'bad_message' && this.#badMessages.spend(performance.now())) {
      this.fail(
        new PartylineError('bad_message', `Too many bad messages; the last: ${error.message}`),
      );
      return;
    }
    this.#sendError(error, replyTo);
  }

  async #handle(message: ClientMessage): Promise<void> {
    if (message.type === 'join') return this.#join(message);
    if (message.type === 'leave') return this.#leave(message);
    if (message.type === 'configure') {
      return this.#answer(message.id, this.#audio.configure(message));
    }
    if (this.#state.name !== 'in_room' || this.#state.peer.kind !== 'webrtc') {
      throw new PartylineError('bad_message', `${message.type}: join with "media":"webrtc" first.`);
    }
    if (message.type === 'produce' && !this.#mayPublish) {
      throw new PartylineError('forbidden', 'The token does not allow to publish.');
    }
    this.#answer(message.id, await handleWebRtcMessage(this.#state.peer, message));
  }

  /** Prepares the new place before the old one is left, so that a join that fails changes nothing. */
  async #join(message: ClientMessages['join']): Promise<void> {
    const room = checkName(message.room, 'room', 'bad_message');
    const { grant } = this.#parts.credentials;
    if (grant) checkRoomGrant(grant, room);
    const current = this.#state;
    if (current.name === 'in_room' && current.room === room && current.peer.kind === 'websocket') {
      if (!message.media) return this.#confirmJoin(message.id, room, current.peer);
    }
    const peer = await this.#openPeer(room, message);
    if (this.#state.name === 'closed') {
      peer.close('closed');
      return;
    }
    if (this.#state.name === 'in_room') this.#state.peer.close('moved');
    this.#state = { name: 'in_room', room, peer };
    this.#audio.attach(peer.kind === 'websocket' ? peer : undefined);
    peer.enter();
    this.#confirmJoin(message.id, room, peer);
    peer.listen();
    this.log.info({ room, kind: peer.kind }, 'joined');
  }

  async #openPeer(
    room: string,
    message: ClientMessages['join'],
  ): Promise<WebSocketPeer | WebRtcPeer> {
    await this.#parts.checkJoin(this.#account, this.#state.name === 'lobby');
    const lease = await this.#parts.rooms.acquire(this.#account.id, room);
    try {
      return message.media
        ? await WebRtcPeer.open(lease, this, message.rtp_capabilities)
        : new WebSocketPeer(lease, this, this.#audio.hearing);
    } catch (fault) {
      lease.release();
      throw fault;
    }
  }

  #confirmJoin(id: string | undefined, room: string, peer: WebSocketPeer | WebRtcPeer): void {
    const webrtc = peer.kind === 'webrtc' ? { webrtc: peer.describe() } : {};
    this.#answer(id, {
      type: 'joined',
      room,
      speaker: peer.speaker,
      peers: peer.others(),
      ...webrtc,
    });
  }

  #leave(message: ClientMessages['leave']): void {
    if (this.#state.name !== 'in_room') {
      throw new PartylineError('bad_message', 'leave: not in a room.');
    }
    this.#leaveRoom('left', message.id);
  }

  #leaveRoom(reason: LeaveReason, replyTo?: string): void {
    if (this.#state.name !== 'in_room') return;
    const { room, peer } = this.#state;
    this.#state = { name: 'lobby' };
    this.#audio.attach(undefined);
    peer.close(reason);
    this.#answer(replyTo, { type: 'left', room, reason });
    this.log.info({ room, reason }, 'left');
  }

  #answer(id: string | undefined, message: ServerMessage): void {
    this.notify(id === undefined ? message : { ...message, reply_to: id });
  }

  #sendError(error: PartylineError, replyTo?: string): void {
    this.#answer(replyTo, errorMessage(error));
  }

  /** Lets go of everything; the socket may already be gone. */
  #end(reason: LeaveReason): void {
    if (this.#state.name === 'closed') return;
    const before = this.#state;
    this.#state = { name: 'closed' };
    if (before.name === 'in_room') before.peer.close(reason);
    this.#audio.close();
    const { droppedFrames } = this.#sendQueue;
    this.log.info({ reason, droppedFrames }, 'session ended');
    this.#parts.onClosed(reason, droppedFrames);
  }
}
