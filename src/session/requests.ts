import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Account } from '../accounts/accounts.ts';
import { type Credentials, mayPublish, roomFault } from '../accounts/authenticator.ts';
import { logFault } from '../protocol/log-fault.ts';
import { mayNotPublish, PartylineError } from '../protocol/errors.ts';
import {
  type ClientMessage,
  type ClientMessages,
  MessageError,
  parseClientMessage,
} from '../protocol/client-messages.ts';
import { errorMessage, type MessageId, type ServerMessage } from '../protocol/messages.ts';
import type { WebRtcPeer } from '../rooms/webrtc-peer.ts';
import { BadMessageBudget } from './bad-message-budget.ts';
import type { ClientAudio } from './client-audio.ts';
import type { ClientNotifier } from './client-notifier.ts';
import { SerialQueue } from './serial-queue.ts';
import { type Charge, costOf, type MessageBudget, prepaidCostOf } from './message-budget.ts';
import { checkRoomName } from '../protocol/names.ts';
import type { Presence } from './presence.ts';
import type { ReadControl } from './read-gate.ts';
import type { RequestLimits } from './request-limits.ts';
import { handleWebRtcMessage, takeOffer } from './webrtc-messages.ts';

/** Number of messages waiting for one that takes time (a join) from which the client is no longer read. */
const MAX_WAITING = 64;
/**
 * Length from which a text is parsed when its turn comes, characters: 64 KiB take milliseconds. Browsers send
 * at most half of it.
 */
const MAX_PARSED_AT_ONCE = 16 * 1024;

type RequestClient = ClientNotifier & {
  readonly log: FastifyBaseLogger;
  readonly account: Account;
};

/** Settings that `configure` can change. */
const SETTINGS = ['audio', 'audio_out', 'delivery', 'volume', 'mute'] as const;

type ParsedMessage = { message: ClientMessage; characters: number };

/**
 * A message, a text that has not been parsed, or the fault of one that is no message. `isMarked` is true while the audio behind
 * it waits for it.
 */
type Request = (ParsedMessage | { text: string } | { fault: unknown }) & { isMarked: boolean };

/**
 * Requests of a client in text frames, handled one after the other, each of them answered or refused. A client that asks for more
 * than its budget allows is not read until there is budget again.
 */
export class Requests {
  readonly #socket: ReadControl;
  readonly #presence: Presence;
  readonly #audio: ClientAudio;
  readonly #credentials: Credentials;
  readonly #client: RequestClient;
  readonly #badMessages = new BadMessageBudget();
  readonly #limits: RequestLimits;
  readonly #budget: MessageBudget;
  readonly #closing = new AbortController();
  /** The last `leave`; marked until it has been handled. */
  #leave: Request | undefined;
  /** Requests, handled one at a time: a `join` that arrives during another is handled after it. */
  readonly #inTurn = new SerialQueue<Request>((...request) => this.#tryToHandle(...request));

  /** @param socket is not read while too many requests wait, or the budget is spent */
  constructor(
    socket: ReadControl,
    presence: Presence,
    audio: ClientAudio,
    { credentials, requestLimits }: { credentials: Credentials; requestLimits: RequestLimits },
    client: RequestClient,
  ) {
    this.#socket = socket;
    this.#presence = presence;
    this.#audio = audio;
    this.#credentials = credentials;
    this.#client = client;
    this.#limits = requestLimits;
    this.#budget = requestLimits.openBudget(() => client.account);
  }

  /** Number of requests that have not been handled to the end. */
  get waiting(): number {
    return this.#inTurn.waiting;
  }

  /** True while a `leave` waits for its turn; one that is held unread is not known. */
  get isLeaving(): boolean {
    return this.#leave?.isMarked ?? false;
  }

  /** @param characters length of the message as it came */
  add(message: ClientMessage, characters: number): void {
    const request = { message, characters, isMarked: this.#isToBeMarked(message) };
    if (request.isMarked) this.#audio.input.mark();
    if (message.type === 'leave') this.#leave = request;
    this.#inTurn.add(request);
    if (this.waiting >= MAX_WAITING) this.#socket.pause();
  }

  /**
   * Takes a text as it came, to be parsed when its turn comes, where many messages wait or it is long: most texts of a
   * flood are never parsed.
   * @returns false if it is to be parsed now
   */
  holdUnread(text: string): boolean {
    if (this.waiting < MAX_WAITING && text.length <= MAX_PARSED_AT_ONCE) return false;
    // The text may be a `configure` that changes the format or mutes.
    this.#audio.input.mark();
    this.#inTurn.add({ text, isMarked: true });
    if (this.waiting >= MAX_WAITING) this.#socket.pause();
    return true;
  }

  /** Adds the fault of a text that is no message; it is told in turn, so that answers come in the order of what they answer. */
  addFault(fault: unknown): void {
    this.#inTurn.add({ fault, isMarked: false });
    if (this.waiting >= MAX_WAITING) this.#socket.pause();
  }

  /** Returns whether the audio behind a message is handled after it, as the client sent it. */
  #isToBeMarked(message: ClientMessage): boolean {
    // Audio between a `leave` and a `join` belongs to no room.
    if (message.type === 'join') return this.isLeaving;
    if (message.type === 'leave') return true;
    return (
      message.type === 'configure' && (message.audio !== undefined || message.mute !== undefined)
    );
  }

  /** Stops handling messages. */
  close(): void {
    this.#inTurn.clear();
    this.#closing.abort();
  }

  /**
   * Reports a fault that leaves socket and state as they are, unless there are too many.
   * @param of type of the message, if it was well-formed
   */
  #refuse(fault: unknown, replyTo: MessageId | undefined, of?: ClientMessage['type']): void {
    const error = logFault(this.#client.log, fault, 'message failed');
    const isBad =
      error.code === 'bad_message' ||
      error.code === 'unsupported_audio' ||
      (of === 'join' && !error.kind.retryable);
    // Consumers end while the browser resumes them: twenty at once where the browser leaves a large
    // room.
    const isRace = of === 'resume_consumer';
    if (isBad && !isRace && this.#badMessages.spend(performance.now())) {
      this.#client.fail(
        new PartylineError('bad_message', `Too many bad messages; the last: ${error.message}`),
        replyTo,
      );
      return;
    }
    this.#answer(replyTo, errorMessage(error));
  }

  /** Mutes or unmutes the client at once, as if it had asked for it. @throws {PartylineError} `media_lost` */
  setMuted(isMuted: boolean): Promise<void> {
    return this.#configure({ type: 'configure', mute: isMuted }, this.#presence.browser);
  }

  /** @throws {PartylineError} `bad_message`, `forbidden` if the client may not join the room */
  checkRoom(name: string): string {
    const room = checkRoomName(name, 'bad_message');
    const fault = roomFault(this.#credentials, room);
    if (fault) throw fault;
    return room;
  }

  async #tryToHandle(request: Request, idleMs: number): Promise<void> {
    let id: MessageId | undefined;
    let type: ClientMessage['type'] | undefined;
    try {
      if (this.#presence.isClosed) return;
      const { message, characters } = await this.#read(request);
      ({ id, type } = message);
      const charge = await this.#pay(message, characters, idleMs);
      await this.#limits.turns.run(this.#client.account.id, async () => {
        if (this.#presence.isClosed) return;
        await this.#handlePaid(message, charge, () => this.#passMark(request));
      });
    } catch (fault) {
      const replyTo = fault instanceof MessageError ? fault.replyTo : id;
      if (!this.#presence.isClosed) this.#refuse(fault, replyTo, type);
    } finally {
      this.#passMark(request);
      this.#afterRequest();
    }
  }

  /** @throws {MessageError} if it is no message */
  #read(request: Request): ParsedMessage | Promise<ParsedMessage> {
    if ('fault' in request) throw request.fault;
    if ('message' in request) return request;
    const { text } = request;
    return this.#limits.turns.run(this.#client.account.id, () => ({
      message: parseClientMessage(text),
      characters: text.length,
    }));
  }

  #afterRequest(): void {
    const isLast = this.waiting === 1;
    if (isLast) this.#audio.drainHeld();
    if (this.#socket.isPaused && this.waiting <= MAX_WAITING) this.#socket.resume();
  }

  /** Charges a request, and waits until the budget covers it or it is refused; meanwhile the client is not read. */
  async #pay(message: ClientMessage, characters: number, idleMs: number): Promise<Charge> {
    const cost = costOf(message, characters);
    const isPrepaid = takeOffer(this.#presence.browser, message);
    const prepaid = isPrepaid ? prepaidCostOf(message, characters) : 0;
    const charge = this.#budget.charge(cost, idleMs, performance.now(), prepaid);
    const { waitMs, isToBeTold } = charge;
    if (isToBeTold) {
      const fault = overBudget('Too many messages; they are read more slowly.', charge);
      this.#client.notify(errorMessage(fault));
    }
    if (waitMs > 0) {
      this.#socket.pause();
      await this.#wait(waitMs);
    }
    return charge;
  }

  /**
   * @param onApplied called when the audio behind the message may go on
   * @throws {PartylineError} `rate_limited` if the budget of the account is exhausted for longer, or any fault of the message
   */
  async #handlePaid(message: ClientMessage, charge: Charge, onApplied: () => void): Promise<void> {
    if (charge.outcome === 'close') {
      this.#client.fail(overBudget('The client keeps exceeding its budget.', charge), message.id);
      return;
    }
    if (charge.outcome === 'refuse') throw overBudget('Too many messages of the account.', charge);
    await this.#handle(message, onApplied);
  }

  /** Lets the audio behind a request go on, once. */
  #passMark(request: Request): void {
    if (!request.isMarked) return;
    request.isMarked = false;
    this.#audio.input.passMark();
    // Audio behind a `leave` was sent to no room, and must not wait for the next one.
    if ('message' in request && request.message.type === 'leave') this.#audio.drainHeld();
  }

  /** Resolves after a time, or when the connection has ended. */
  async #wait(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#closing.signal }).catch(() => {});
  }

  async #handle(message: ClientMessage, onApplied: () => void): Promise<void> {
    if (message.type === 'join') return this.#presence.join(this.checkRoom(message.room), message);
    if (message.type === 'leave') return this.#presence.leave('left', message.id);
    const { browser } = this.#presence;
    if (message.type === 'configure') return this.#configure(message, browser, onApplied);
    if (!browser) {
      throw new PartylineError('bad_message', `${message.type}: join with "media":"webrtc" first.`);
    }
    if (message.type === 'produce' && !mayPublish(this.#credentials)) throw mayNotPublish();
    this.#answer(message.id, await handleWebRtcMessage(browser, message));
  }

  async #configure(
    message: ClientMessages['configure'],
    browser: WebRtcPeer | undefined,
    onApplied: () => void = () => {},
  ): Promise<void> {
    const isVolumeSet = message.volume !== undefined && Object.keys(message.volume).length > 0;
    if (this.#presence.isHearingApart && isVolumeSet) {
      const fault = 'configure: a browser gets each peer apart, and sets the volume by itself.';
      throw new PartylineError('bad_message', fault);
    }
    if (!SETTINGS.some((name) => message[name] !== undefined)) {
      const names = SETTINGS.join(', ');
      throw new PartylineError('bad_message', `configure: give at least one of ${names}.`);
    }
    const configured = this.#audio.configure(message);
    onApplied();
    await browser?.setMuted(this.#audio.isMuted);
    // Settings must be stored before they are confirmed to the client.
    await this.#audio.saved;
    this.#answer(message.id, configured);
  }

  #answer(id: MessageId | undefined, message: ServerMessage): void {
    this.#client.notify(id === undefined ? message : { ...message, reply_to: id });
  }
}

const overBudget = (message: string, { retryAfterMs }: { retryAfterMs: number }) =>
  new PartylineError('rate_limited', message, { retryAfterMs });
