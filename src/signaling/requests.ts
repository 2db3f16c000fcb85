import type { FastifyBaseLogger } from 'fastify';
import type { WebSocket } from 'ws';
import { checkRoomGrant, type Credentials, mayPublish } from '../accounts/authenticator.ts';
import { mayNotPublish, PartylineError } from '../protocol/errors.ts';
import {
  type ClientMessage,
  type ClientMessages,
  errorMessage,
  type MessageId,
  type ServerMessage,
} from '../protocol/messages.ts';
import type { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import { BadMessageBudget } from './bad-message-budget.ts';
import type { ClientAudio } from './client-audio.ts';
import { InTurn } from './in-turn.ts';
import { checkName } from '../protocol/names.ts';
import type { Presence } from './presence.ts';
import { handleWebRtcMessage } from './webrtc-messages.ts';

/** With so many messages that wait for one that takes time (a join), the client is not read any further. */
const MAX_WAITING = 64;

type Outlet = {
  readonly log: FastifyBaseLogger;
  notify(message: ServerMessage): void;
  fail(fault: unknown): void;
};

/** What a client asks for in text frames: one request after the other, each of them answered or refused. */
export class Requests {
  readonly #socket: Pick<WebSocket, 'pause' | 'resume' | 'isPaused'>;
  readonly #presence: Presence;
  readonly #audio: ClientAudio;
  readonly #credentials: Credentials;
  readonly #outlet: Outlet;
  readonly #badMessages = new BadMessageBudget();
  /** In turn, so that a join during a join is just the next one. */
  readonly #inTurn = new InTurn<ClientMessage>((message) => this.#tryToHandle(message));

  /** @param socket is not read while too many requests wait */
  constructor(
    socket: Pick<WebSocket, 'pause' | 'resume' | 'isPaused'>,
    presence: Presence,
    audio: ClientAudio,
    credentials: Credentials,
    outlet: Outlet,
  ) {
    this.#socket = socket;
    this.#presence = presence;
    this.#audio = audio;
    this.#credentials = credentials;
    this.#outlet = outlet;
  }

  /** How many have not been seen to. */
  get waiting(): number {
    return this.#inTurn.waiting;
  }

  add(message: ClientMessage): void {
    this.#inTurn.add(message);
    if (this.waiting >= MAX_WAITING) this.#socket.pause();
  }

  /** A fault that leaves the socket open, in the state in which it was; unless there are too many. */
  refuse(fault: unknown, replyTo: MessageId | undefined): void {
    const error = PartylineError.from(fault);
    if (error.code === 'internal_error') this.#outlet.log.error({ err: fault }, 'message failed');
    if (error.code === 'bad_message' && this.#badMessages.spend(performance.now())) {
      this.#outlet.fail(
        new PartylineError('bad_message', `Too many bad messages; the last: ${error.message}`),
      );
      return;
    }
    this.#answer(replyTo, errorMessage(error));
  }

  /** @throws {PartylineError} `bad_message`, `forbidden` if the client may not go into such a room */
  checkRoom(name: string): string {
    const room = checkName(name, 'room', 'bad_message');
    const { grant } = this.#credentials;
    if (grant) checkRoomGrant(grant, room);
    return room;
  }

  async #tryToHandle(message: ClientMessage): Promise<void> {
    try {
      if (!this.#presence.isClosed) await this.#handle(message);
    } catch (fault) {
      this.refuse(fault, message.id);
    }
    const isLast = this.waiting === 1;
    if (isLast) this.#audio.flushHeld();
    if (this.#socket.isPaused && this.waiting < MAX_WAITING) this.#socket.resume();
  }

  async #handle(message: ClientMessage): Promise<void> {
    if (message.type === 'join') {
      return this.#presence.join(this.checkRoom(message.room), message);
    }
    if (message.type === 'leave') return this.#presence.leave('left', message.id);
    const { browser } = this.#presence;
    if (message.type === 'configure') return this.#configure(message, browser);
    if (!browser) {
      throw new PartylineError('bad_message', `${message.type}: join with "media":"webrtc" first.`);
    }
    if (message.type === 'produce' && !mayPublish(this.#credentials)) throw mayNotPublish();
    this.#answer(message.id, await handleWebRtcMessage(browser, message));
  }

  async #configure(
    message: ClientMessages['configure'],
    browser: WebRtcPeer | undefined,
  ): Promise<void> {
    if (browser && message.volume) {
      const fault = 'configure: a browser gets each peer apart, and sets the volume by itself.';
      throw new PartylineError('bad_message', fault);
    }
    const configured = this.#audio.configure(message);
    await browser?.setMuted(this.#audio.isMuted);
    this.#answer(message.id, configured);
  }

  #answer(id: MessageId | undefined, message: ServerMessage): void {
    this.#outlet.notify(id === undefined ? message : { ...message, reply_to: id });
  }
}
