import type { FastifyBaseLogger } from 'fastify';
import type { WebSocket } from 'ws';
import type { Account } from '../accounts/accounts.ts';
import { accountFault, type KeyState, mayPublish } from '../accounts/authenticator.ts';
import { FRAME_MS } from '../audio/format.ts';
import type { StreamOverdraft } from '../audio/ingest/stream-budget.ts';
import { counters } from '../counters.ts';
import { logFault } from '../protocol/log-fault.ts';
import { mayNotPublish, PartylineError, replaced } from '../protocol/errors.ts';
import type { ClientConnection } from '../rooms/peer.ts';
import type { AudioSettings } from './audio-settings.ts';
import type { AudioBudget } from './audio-budget.ts';
import { AudioLimit } from './audio-limit.ts';
import { ClientAudio } from './client-audio.ts';
import type { ClientInput } from './client-input.ts';
import { closeUnread } from './close-unread.ts';
import { ControlLimit } from './control-limit.ts';
import { parseClientMessage } from '../protocol/client-messages.ts';
import {
  errorMessage,
  type LeaveReason,
  type MessageId,
  type ServerMessage,
} from '../protocol/messages.ts';
import { minutesExhausted } from '../usage/quota.ts';
import { mayComeBackAfterClose, mayComeBackAfterFault } from './resumable.ts';
import { Heartbeat } from './heartbeat.ts';
import { MAX_MESSAGE_BYTES } from '../protocol/message-size.ts';
import { LOBBY } from '../protocol/names.ts';
import { Pings } from './pings.ts';
import { Presence } from './presence.ts';
import { ReadGate } from './read-gate.ts';
import { Requests } from './requests.ts';
import { SendQueue } from './send-queue.ts';
import type {
  AccountLimits,
  Move,
  ResumedSession,
  SessionEnd,
  SessionParts,
} from './session-parts.ts';
import { readInTurns } from './turns.ts';

/** One client on one WebSocket, from `welcome` to close: lobby, rooms, and its frames both ways. */
export class Session implements ClientConnection {
  readonly name: string;
  readonly log: FastifyBaseLogger;
  readonly #socket: WebSocket;
  readonly #parts: SessionParts;
  readonly #sendQueue: SendQueue;
  readonly #audio: ClientAudio;
  readonly #input: ClientInput;
  readonly #pings: Pings;
  readonly #heartbeat: Heartbeat;
  #account: Account;
  readonly #presence: Presence;
  readonly #requests: Requests;
  readonly #audioBudget: AudioBudget;
  readonly #audioLimit: AudioLimit;
  readonly #gate: ReadGate;
  readonly #controlLimit: ControlLimit;
  #replacing: NodeJS.Timeout | undefined;
  #move: Move | undefined;
  #statsAtMs = performance.now();
  #hasBeenToldNotToPublish = false;
  readonly #mayPublish: boolean;
  #isClosed = false;
  /** True from the moment at which the session begins to end: it ends once, for one reason. */
  #isEnding = false;

  constructor(socket: WebSocket, parts: SessionParts) {
    this.name = parts.peer;
    this.#account = parts.credentials.account;
    this.#mayPublish = mayPublish(parts.credentials);
    this.log = parts.log;
    this.#socket = socket;
    this.#parts = parts;
    this.#pings = new Pings(parts.timings);
    const { readTurns } = parts.requestLimits;
    const turn = {
      begin: () => readTurns.begin(),
      take: (start: () => void) => readTurns.take(this.#account.id, start),
    };
    const { soundPingEveryMs } = parts.timings;
    this.#sendQueue = new SendQueue(socket, parts.stream, this.#pings, soundPingEveryMs, {
      onSlow: () => this.fail(slowConsumer()),
      onCaughtUp: (missed) => this.#presence.tellMissed(missed),
      inTurn: turn.take,
    });
    this.#audio = new ClientAudio(parts.audio, parts.settings, parts.codecs, turn, this);
    this.#input = this.#audio.input;
    this.#presence = new Presence(this, this.#audio, parts);
    this.#gate = new ReadGate(socket);
    this.#requests = new Requests(this.#gate.open(), this.#presence, this.#audio, parts, this);
    this.#audioBudget = parts.requestLimits.openAudioBudget();
    this.#audioLimit = new AudioLimit(this.#gate.open(), this);
    this.#controlLimit = parts.requestLimits.openControlLimit(this.#gate.open(), this);
    const { statsEveryMs, heartbeatEveryMs } = parts.timings;
    const pingEveryMs = parts.wantsStats ? statsEveryMs : heartbeatEveryMs;
    this.#heartbeat = new Heartbeat(socket, parts.stream, pingEveryMs, this.#pings, parts.timings);
    socket.on('ping', () => this.#receiveControl());
    socket.on('pong', (payload: Buffer) => this.#receiveControl(payload));
    // Hundreds may close at once.
    socket.on('close', (code) => {
      const end = () => this.#end('closed', mayComeBackAfterClose(code));
      parts.requestLimits.readTurns.take(this.#account.id, end);
    });
    // ws closes the socket itself after a protocol error, and then emits 'close'.
    socket.on('error', (fault) => {
      this.log.debug({ err: fault }, 'socket error');
      if ('code' in fault && fault.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') {
        this.#end('message_too_big', false);
      }
    });
  }

  /** Takes messages from the socket. Until then the caller passes them to {@link receive}. */
  listen(): void {
    if (this.#isClosed) return;
    this.#socket.on('message', (data: Buffer, isBinary: boolean) => this.receive(data, isBinary));
  }

  /**
   * Starts to read from the client, in turn with other clients.
   * @returns a function that has everything handled that has come by now
   */
  read(): () => void {
    const { stream, requestLimits } = this.#parts;
    const owner = { turns: requestLimits.readTurns, accountId: this.#account.id };
    return readInTurns(this.#socket, stream, owner, this.#gate.open());
  }

  /**
   * Sends `welcome`, and resumes the place that is kept for the client here, if there is one.
   * @param query room that it asked for at connection, by default the lobby, and its network
   * @param resumed the session that it resumes, if any
   * @returns the room that it must join as if it had asked to; undefined if none
   */
  start(
    limits: AccountLimits,
    { room, network }: { room: string; network: string },
    resumed?: ResumedSession,
  ): string | undefined {
    const { id, resumeToken, timings, places } = this.#parts;
    const place = resumed?.place;
    this.notify({
      type: 'welcome',
      peer: this.name,
      room: place?.isHere ? place.room : LOBBY,
      session_id: id,
      resume_token: resumeToken,
      ...(resumed
        ? { resumed: true, ...this.#audio.describeSettings() }
        : { audio: this.#audio.describe() }),
      limits,
      heartbeat_ms: timings.heartbeatEveryMs,
      network,
      resume_ms: places.keepMs,
    });
    this.#heartbeat.ping(performance.now());
    this.log.info('session started');
    if (place?.isHere) {
      this.#presence.resume();
      return undefined;
    }
    // A browser that was on another node joins by itself: it needs new transports.
    if (place) return place.kind === 'websocket' ? place.room : undefined;
    return room === LOBBY ? undefined : room;
  }

  /** True if the client is in no room and has no request in progress. */
  get isIdle(): boolean {
    return !this.#presence.isInRoom && this.#requests.waiting === 0;
  }

  get id(): string {
    return this.#parts.id;
  }

  get settings(): AudioSettings {
    return this.#audio.settings;
  }

  settingsChanged(): Promise<void> {
    return this.#parts.onSettings(this.#audio.settings);
  }

  /** True if the client may soon be in a room, because a join is in progress. */
  get isJoining(): boolean {
    return this.#requests.waiting > 0;
  }

  get connectionId(): string {
    return this.#parts.connectionId;
  }

  get order(): number {
    return this.#parts.order;
  }

  /** The present account. */
  get account(): Account {
    return this.#account;
  }

  /** Applies a change of the account or of its valid credentials. */
  accountChanged(account: Account, keys: KeyState): void {
    this.#account = account;
    const fault = accountFault(account, keys, this.#parts.credentials);
    if (fault) this.fail(fault);
  }

  /** Applies that the month's minutes are used up: a client in a room is closed; the lobby costs nothing. */
  exhaust(resetsAt: string): void {
    if (!this.#presence.isInRoom) return;
    this.#presence.leave('minutes_exhausted');
    this.fail(minutesExhausted(resetsAt));
  }

  /** Mutes or unmutes the client, as if it had asked for it, and sends it `configured`. @throws {PartylineError} `media_lost` */
  setMuted(isMuted: boolean): Promise<void> {
    return this.#requests.setMuted(isMuted);
  }

  notify(message: ServerMessage): void {
    if (!this.#isClosed) this.#sendQueue.sendText(JSON.stringify(message));
  }

  volumeLimited(): void {
    this.#audio.volumeLimited();
  }

  notifyLater(text: string): boolean {
    return !this.#isClosed && this.#sendQueue.queueText(text);
  }

  flush(): void {
    if (!this.#isClosed) this.#sendQueue.flush();
  }

  sendAudio(frame: Buffer): void {
    if (this.#audio.admitSound()) this.#sendQueue.sendAudio(frame);
  }

  get takesRelayed(): boolean {
    return this.#audio.takesRelayed;
  }

  takeRelayed(message: Buffer): void {
    this.#audio.takeRelayed(message);
  }

  sendRelayed(message: Buffer): void {
    this.#sendQueue.sendRelayed(message);
  }

  streamOver(overdraft: StreamOverdraft): void {
    if (!this.#isEnding) this.#audioLimit.slowDown(overdraft);
  }

  /** Sends the client an `error` and closes with the matching code. Faults that are not the client's are logged. */
  fail(fault: unknown, replyTo?: MessageId): void {
    if (this.#isEnding) return;
    const error = logFault(this.log, fault, 'session failed');
    this.notify(errorMessage(error, replyTo));
    closeUnread(this.#socket, this.#parts.stream, error.kind.closeCode, error.code);
    this.#end(error.code, mayComeBackAfterFault(error.code));
  }

  /** Closes this connection, because the same peer has connected again. */
  replace(): void {
    this.fail(replaced());
  }

  /**
   * Closes this connection within `withinMs`: the same peer has connected to another node, and this
   * connection stays until the other hears the room.
   * @param move known when the client is in a room there, or wants to be in none: its place in another room is not kept
   */
  replaceSoon(withinMs: number, move?: Move): void {
    this.#move = move ?? this.#move;
    clearTimeout(this.#replacing);
    if (!this.#presence.isInRoom) this.replace();
    else this.#replacing = setTimeout(() => this.replace(), withinMs);
  }

  /** Tells the client, once, that its audio is not heard; legacy clients send it all the same. */
  refuseToPublish(): void {
    if (this.#hasBeenToldNotToPublish) return;
    this.#hasBeenToldNotToPublish = true;
    this.notify(errorMessage(mayNotPublish()));
  }

  /** Closes the client, because the node goes away. */
  drain(): void {
    this.fail(new PartylineError('draining', 'This node is draining; reconnect.'));
  }

  /**
   * Pings if a ping is due, sends `stats` and `rtp_flow`, and closes a client that was silent for `silentAfterMs`.
   * @param hasStoodStill true if this process has not run for a while, and so has not read the client
   */
  beat(nowMs: number, hasStoodStill: boolean): void {
    const isRead = !hasStoodStill && !this.#socket.isPaused;
    if (this.#heartbeat.beat(nowMs, isRead) === 'silent') {
      this.fail(
        new PartylineError('heartbeat_timeout', 'No data arrived from the client for 30 seconds.'),
      );
      this.#socket.terminate();
      return;
    }
    this.#audio.settleRelayed();
    this.#presence.watchRtp(nowMs);
    const isDue = nowMs - this.#statsAtMs >= this.#parts.timings.statsEveryMs;
    if (this.#parts.wantsStats && isDue) this.#sendStats(nowMs);
  }

  #sendStats(nowMs: number): void {
    this.#statsAtMs = nowMs;
    const { ingest_ms, drift_ppm, dropped_ms, concealed_ms } = this.#audio.describeStats();
    const { rttMs } = this.#pings;
    const unreadMs = this.#sendQueue.droppedFrames * FRAME_MS;
    this.notify({
      type: 'stats',
      ingest_ms,
      drift_ppm,
      dropped_ms: dropped_ms + unreadMs,
      concealed_ms,
      send_queue_ms: Math.round(this.#sendQueue.waitingMs),
      ...(rttMs === undefined ? {} : { rtt_ms: Math.round(rttMs * 10) / 10 }),
    });
  }

  /** Takes a message of the client. */
  receive(data: Buffer, isBinary: boolean): void {
    if (this.#isClosed) return;
    const nowMs = performance.now();
    if (data.length > MAX_MESSAGE_BYTES) {
      this.fail(new PartylineError('message_too_big', 'The message is too long: at most 64 KiB.'));
    } else if (isBinary) {
      this.#receiveAudio(data, nowMs);
    } else {
      this.#receiveText(data.toString());
    }
  }

  /** Takes a ping, or a pong with its payload. */
  #receiveControl(answer?: Buffer): void {
    const nowMs = performance.now();
    if (answer) this.#sendQueue.answered(answer, nowMs);
    this.#controlLimit.receive(nowMs);
  }

  /** Takes a binary message; an empty one has no effect. */
  #receiveAudio(message: Buffer, arrivedAtMs: number): void {
    let nowMs = arrivedAtMs;
    if (!this.#presence.hasBinaryCome) {
      this.#presence.binaryCame();
      // A message that completes a change to the WebSocket belongs to the new uplink, which was
      // opened just now.
      nowMs = performance.now();
    }
    if (this.#audioLimit.isRefusing) {
      counters.dropped.too_fast += 1;
      this.#input.refuse(message);
      return;
    }
    const overdraft = this.#audioBudget.charge(message.length, this.#input.bytesPerSecond, nowMs);
    if (overdraft && !this.#audioLimit.admit(overdraft)) {
      this.#input.refuse(message);
      return;
    }
    if (message.length === 0) return;
    if (this.#mayPublish) this.#input.receive(message, nowMs);
    else this.refuseToPublish();
  }

  #receiveText(text: string): void {
    if (this.#requests.holdUnread(text)) {
      this.#presence.joinCame();
      return;
    }
    try {
      const message = parseClientMessage(text);
      if (message.type === 'join') this.#presence.joinCame();
      this.#requests.add(message, text.length);
    } catch (fault) {
      this.#requests.addFault(fault);
    }
  }

  /** Releases a client that was handed over to another process. */
  detach(): void {
    this.#release('moved', false);
  }

  /** Releases everything except the place of a client that may come back; the socket may be closed already. */
  #end(reason: LeaveReason, mayComeBack: boolean): void {
    if (this.#isEnding) return;
    // Before the answer to a `leave`: too much unread text would end the session a second time.
    this.#isEnding = true;
    if (this.#requests.isLeaving) this.#leaveAtEnd();
    const { room } = this.#presence;
    const move = room !== undefined && this.#move?.room !== room ? this.#move : undefined;
    if (!mayComeBack && !move) this.#presence.giveUpPlace(reason);
    this.#parts.onClosed(reason, this.#release(move?.reason ?? reason, mayComeBack && !move));
  }

  /** Handles a `leave` whose turn has not come, because requests before it take time. */
  #leaveAtEnd(): void {
    if (this.#presence.isInRoom) this.#presence.leave('left');
    else this.#presence.giveUpPlace('left');
  }

  #release(reason: LeaveReason, mayComeBack: boolean): SessionEnd {
    this.#gate.close();
    this.#requests.close();
    this.#audioLimit.close();
    this.#controlLimit.close();
    const { settings } = this;
    this.#isEnding = true;
    this.#isClosed = true;
    const place = this.#presence.end(reason, mayComeBack);
    this.#audio.close();
    clearTimeout(this.#replacing);
    const { droppedFrames } = this.#sendQueue;
    this.log.info({ reason, droppedFrames, isKept: place !== undefined }, 'session ended');
    return { mayComeBack, place, settings };
  }
}

const slowConsumer = () =>
  new PartylineError('slow_consumer', 'The client did not read 1 MiB of text messages.');
