import { CLOSE_CODES } from '../../../src/protocol/close-codes.ts';
import type { ClientMessages } from '../../../src/protocol/client-messages.ts';
import type { ServerMessage, MessageId } from '../../../src/protocol/messages.ts';
import { RequestError } from './errors.ts';
import { LOBBY } from './lobby.ts';
import { reasonForCloseCode, type CloseReason } from './retry.ts';

/** One WebSocket to `/ws`, from its opening to its end: requests with their answers, and everything else as messages. */

export type MessageOf<T extends ServerMessage['type']> = Extract<ServerMessage, { type: T }>;

/** Type of the answer to each request. */
type ReplyTypes = {
  join: 'joined';
  leave: 'left';
  configure: 'configured';
  connect_transport: 'transport_connected';
  produce: 'produced';
  pause_producer: 'producer_paused';
  resume_producer: 'producer_resumed';
  resume_consumer: 'consumer_resumed';
  restart_ice: 'ice_restarted';
};
type RequestType = keyof ReplyTypes;

type Request<T extends RequestType> = { type: T } & Omit<ClientMessages[T], 'type' | 'id'>;
type Reply<T extends RequestType> = MessageOf<ReplyTypes[T]>;
export type SendRequest = <T extends RequestType>(request: Request<T>) => Promise<Reply<T>>;

type Waiting = {
  resolve: (reply: ServerMessage) => void;
  reject: (error: RequestError) => void;
  timer: number;
};

type ConnectionHandlers = {
  /** Called when the gateway has admitted the client. */
  welcomed: (welcome: MessageOf<'welcome'>) => void;
  /** Called with each message that answers no request. */
  received: (message: ServerMessage) => void;
  /** Called when the connection has ended, unless by `close()`. */
  lost: (reason: CloseReason) => void;
};

const REQUEST_TIMEOUT_MS = 10_000;
/** Maximum number of bytes that may wait for a slow network: about a second of Opus. */
const MAX_WAITING_BYTES = 5000;
/** Time within which a close follows the `error` that is its reason, and the `left` before that, ms: the gateway sends all at once. */
const CLOSE_FOLLOWS_WITHIN_MS = 1000;
/** Close code for a connection that seems dead: the gateway then keeps the place of the client. */
const LOST: number = CLOSE_CODES.heartbeat_timeout;

/** One WebSocket, from its opening to its end; `Reconnector` opens the next one. */
export class Connection {
  /** Receiver of binary frames: audio, for a client without WebRTC. */
  onFrame: ((frame: ArrayBuffer) => void) | undefined;
  /** Time of the last message, ms of `performance.now()`. */
  heardMs = performance.now();
  readonly #socket: WebSocket;
  readonly #handlers: ConnectionHandlers;
  readonly #listening = new AbortController();
  readonly #waiting = new Map<MessageId, Waiting>();
  /** Runs until `welcome`, and then, if the client is in a room, until `joined`. */
  #welcomeTimer: number | undefined;
  #lastId = 0;
  #closed = false;
  #lastMessage: ServerMessage | undefined;
  /** Error that answers no request, or `left`, or both: they belong to a close, unless another message follows, or no close does. */
  #held: { messages: ServerMessage[]; timer: number } | undefined;

  /** @param welcomeWithinMs time in which the gateway must admit the client */
  constructor(url: URL, welcomeWithinMs: number, handlers: ConnectionHandlers) {
    this.#handlers = handlers;
    this.#socket = new WebSocket(url);
    this.#socket.binaryType = 'arraybuffer';
    const { signal } = this.#listening;
    this.#socket.addEventListener('message', (event) => this.#receive(event.data), { signal });
    this.#socket.addEventListener('close', (event) => this.#lose(this.#reasonOf(event)), {
      signal,
    });
    this.#awaitGateway(welcomeWithinMs);
  }

  /**
   * Sends a message and waits for the answer.
   * @throws {RequestError} if it is refused, not answered within 10 s, or the connection ends meanwhile
   */
  readonly request: SendRequest = <T extends RequestType>(request: Request<T>) =>
    new Promise<Reply<T>>((resolve, reject) => {
      if (this.#closed) {
        reject(disconnected());
        return;
      }
      const id = String(++this.#lastId);
      const timer = window.setTimeout(() => {
        this.#waiting.delete(id);
        const message = `The gateway did not answer "${request.type}".`;
        reject(new RequestError('timeout', message, true));
      }, REQUEST_TIMEOUT_MS);
      // The gateway answers a request with the type that ReplyTypes names, or with an error.
      const answer = (reply: ServerMessage) => resolve(reply as Reply<T>);
      this.#waiting.set(id, { resolve: answer, reject, timer });
      // A socket that is about to close takes no more messages; its end rejects the waiting
      // requests.
      if (this.#socket.readyState === WebSocket.OPEN) {
        this.#socket.send(JSON.stringify({ ...request, id }));
      }
    });

  /**
   * Sends a frame of audio, unless waiting bytes would make it too late.
   * @returns true if it was sent
   */
  sendFrame(frame: Uint8Array<ArrayBuffer>): boolean {
    const { readyState, bufferedAmount } = this.#socket;
    if (readyState !== WebSocket.OPEN || bufferedAmount > MAX_WAITING_BYTES) return false;
    this.#socket.send(frame);
    return true;
  }

  /** Gives up a connection that is silent or will be, as if it had broken. */
  fail(message: string, closeCode = LOST): void {
    this.#lose({ ...reasonForCloseCode(closeCode), message });
  }

  /** Ends the connection, and with it the client's place in a room; `lost` is not called. */
  close(): void {
    this.#end(1000);
  }

  /** Gives up the connection unless `#welcomeTimer` is ended in time. */
  #awaitGateway(withinMs: number): void {
    this.#welcomeTimer = window.setTimeout(
      () => this.fail('The gateway did not answer.'),
      withinMs,
    );
  }

  /** @param closeCode 1000 if the client does not mean to come back */
  #end(closeCode: number): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#listening.abort();
    window.clearTimeout(this.#welcomeTimer);
    window.clearTimeout(this.#held?.timer);
    this.#held = undefined;
    for (const { reject, timer } of this.#waiting.values()) {
      window.clearTimeout(timer);
      reject(disconnected());
    }
    this.#waiting.clear();
    this.#socket.close(closeCode);
  }

  #lose(reason: CloseReason): void {
    if (this.#closed) return;
    this.#end(LOST);
    this.#handlers.lost(reason);
  }

  #receive(data: unknown): void {
    this.heardMs = performance.now();
    const message = typeof data === 'string' ? parse(data) : undefined;
    // The reason of a `left` follows it.
    const isReason = message?.type === 'error' && message.reply_to === undefined;
    if (!isReason || this.#held?.messages.at(-1)?.type !== 'left') this.#tellHeld();
    if (this.#closed) return; // a listener that was told may have closed it
    if (data instanceof ArrayBuffer) {
      this.onFrame?.(data);
      return;
    }
    if (!message) return;
    this.#lastMessage = message;
    const replyTo = message.reply_to;
    const waiting = replyTo === undefined ? undefined : this.#waiting.get(replyTo);
    if (replyTo !== undefined) {
      if (!waiting) {
        // This is the second answer to a join, or one that came after its time-out.
        if (message.type === 'media_changed' || message.type === 'error') {
          this.#handlers.received(message);
        }
        return;
      }
      this.#waiting.delete(replyTo);
      window.clearTimeout(waiting.timer);
      if (message.type === 'error') {
        waiting.reject(new RequestError(message.code, message.message, message.retryable));
      } else waiting.resolve(message);
    } else if (message.type === 'welcome') {
      window.clearTimeout(this.#welcomeTimer);
      // The `joined` of a large room takes as long as the answer to a join.
      if (message.room !== LOBBY) this.#awaitGateway(REQUEST_TIMEOUT_MS);
      this.#handlers.welcomed(message);
    } else if (message.type === 'error' || message.type === 'left') {
      this.#hold(message);
    } else {
      if (message.type === 'joined') window.clearTimeout(this.#welcomeTimer);
      this.#handlers.received(message);
    }
  }

  #hold(message: ServerMessage): void {
    window.clearTimeout(this.#held?.timer);
    const messages = [...(this.#held?.messages ?? []), message];
    const timer = window.setTimeout(() => this.#tellHeld(), CLOSE_FOLLOWS_WITHIN_MS);
    this.#held = { messages, timer };
  }

  /** Hands on messages that did not belong to a close. */
  #tellHeld(): void {
    const held = this.#held;
    if (!held) return;
    this.#held = undefined;
    window.clearTimeout(held.timer);
    for (const message of held.messages) {
      // While the gateway closes, the `close` event may still take a round trip.
      if (this.#socket.readyState === WebSocket.OPEN) this.#handlers.received(message);
    }
  }

  /**
   * Returns the reason of a close: the `error` right before it, if the close code belongs to it. An `error` that answers a
   * request is no reason; nor is one before a close by a proxy or the network.
   */
  #reasonOf({ code: closeCode, reason }: CloseEvent): CloseReason {
    const last = this.#lastMessage;
    const isReason =
      last?.type === 'error' && last.reply_to === undefined && mayCloseWith(last.code, closeCode);
    if (!isReason) return reasonForCloseCode(closeCode, reason);
    const { code, message, retryable, retry_after_ms: retryAfterMs } = last;
    return {
      code,
      closeCode,
      message,
      retryable,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    };
  }
}

/** Returns whether the gateway may close with a close code because of an `error`. A newer gateway may have errors that are not known here. */
function mayCloseWith(code: string, closeCode: number): boolean {
  const closeCodes: Partial<Record<string, number>> = CLOSE_CODES;
  const knownCloseCode = closeCodes[code];
  return knownCloseCode === undefined ? closeCode >= 4000 : knownCloseCode === closeCode;
}

const disconnected = () =>
  new RequestError('disconnected', 'There is no connection to the gateway.', true);

/** The gateway is trusted to send messages as in messages.ts; other text is ignored. */
function parse(text: string): ServerMessage | undefined {
  try {
    const message: unknown = JSON.parse(text);
    const isMessage = typeof message === 'object' && message !== null && 'type' in message;
    return isMessage ? (message as ServerMessage) : undefined;
  } catch {
    return undefined;
  }
}
