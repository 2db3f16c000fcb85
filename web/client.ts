import { Device, type types } from 'mediasoup-client';
import type { ServerMessage } from '../src/protocol/messages.ts';
import { RequestError, type Connection } from './connection.ts';
import { Link } from './link.ts';
import type { CloseReason } from './retry.ts';
import { Room } from './room.ts';
import { ClosedError, Events, type ClientEvents, type ClientState } from './state.ts';

export type ClientOptions = {
  /** A token with which `peer` may connect (`POST /api/tokens`): asked for at each connection. May throw a `TokenError`. */
  getToken: () => Promise<string>;
  /** The name of this peer, unique within the account: a second connection with the same name replaces the first. */
  peer: string;
  /** The gateway's WebSocket endpoint; default: `/ws` on the host that this page came from. */
  url?: string | URL;
};

/** What the client is doing, with what is open meanwhile. A move keeps the old room (`from`) until the new one has let us in. */
type Phase =
  | Extract<ClientState, { name: 'idle' | 'connecting' | 'reconnecting' | 'closed' }>
  | { name: 'lobby'; connection: Connection }
  | { name: 'joining'; connection: Connection; wish: Wish; from?: InRoom }
  | InRoom;

type InRoom = { name: 'in_room'; connection: Connection; room: Room; wish: Wish };

/** The room that the caller wants to be in until he leaves: joined again when the connection or the media was lost. */
type Wish = {
  room: string;
  /** He has been there: a failure is now ours to mend or to tell, not the answer to his join(). */
  fulfilled: boolean;
  resolve: () => void;
  reject: (error: Error) => void;
};

/**
 * A peer of the gateway: one WebSocket, WebRTC audio, one room at a time.
 *
 *     const client = new PartylineClient({ getToken, peer: 'ada' });
 *     await client.connect();
 *     await client.join('kitchen', microphoneTrack);
 *
 * It plays what it hears. When the connection breaks it reconnects by itself and joins its room again; `state` tells.
 */
export class PartylineClient {
  readonly peer: string;
  readonly #link: Link;
  readonly #events = new Events<ClientEvents>();
  /** What the Device turned out to be able to receive; a hint for the next join to the same node. */
  readonly #capabilities = new WeakMap<Connection, types.RtpCapabilities>();
  #phase: Phase = { name: 'idle' };
  #wish: Wish | undefined;
  #microphone: MediaStreamTrack | null = null;
  #muted = false;

  constructor({ getToken, peer, url = '/ws' }: ClientOptions) {
    this.peer = peer;
    const endpoint = new URL(url, location.href);
    endpoint.protocol = endpoint.protocol.replace(/^http/, 'ws');
    const getAddress = async () => {
      const token = await getToken();
      endpoint.search = new URLSearchParams({ room: '__lobby__', peer, token }).toString();
      return endpoint;
    };
    this.#link = new Link(getAddress, {
      opening: () => this.#enter({ name: 'connecting' }),
      up: (connection) => {
        if (this.#wish) void this.#join(connection, this.#wish);
        else this.#enter({ name: 'lobby', connection });
      },
      received: (connection, message) => this.#received(connection, message),
      down: (pause) => {
        const room = this.#wish?.room;
        this.#enter({ name: 'reconnecting', ...pause, ...(room !== undefined && { room }) });
      },
      ended: (reason) => this.#end(reason),
    });
  }

  /** Listens until `signal` aborts, or the returned function is called. */
  readonly on: Events<ClientEvents>['on'] = (...parameters) => this.#events.on(...parameters);

  get state(): ClientState {
    const phase = this.#phase;
    const { name } = phase;
    if (name === 'lobby') return { name };
    if (name === 'joining') return { name, room: phase.wish.room };
    if (name !== 'in_room') return phase;
    const { name: room, peers, speaking, media } = phase.room;
    return { name, room, peers, speaking, isInterrupted: media.isInterrupted };
  }

  get muted(): boolean {
    return this.#muted;
  }

  /** Resolves in the lobby. @throws {ClosedError} when the gateway refuses for good, or after `close()` */
  connect(): Promise<void> {
    if (this.#phase.name !== 'idle') throw new TypeError('connect() is called once.');
    const connected = new Promise<void>((resolve, reject) => {
      const stop = this.on('change', (state) => {
        if (state.name !== 'lobby' && state.name !== 'closed') return;
        stop();
        if (state.name === 'closed') reject(new ClosedError(state.reason));
        else resolve();
      });
    });
    this.#link.open();
    return connected;
  }

  /**
   * Joins a room, or moves to it from another, and speaks there with `microphone` (without one: only listens). The
   * track stays the caller's, who stops it. Resolves when we hear and are heard.
   * @throws {RequestError} when the join is refused: the client is then where it was
   * @throws {ClosedError} when the connection ended for good
   */
  join(room: string, microphone: MediaStreamTrack | null = null): Promise<void> {
    const phase = this.#phase;
    if (phase.name !== 'lobby' && phase.name !== 'in_room') {
      throw new TypeError(`join() is for the lobby and for a room, not while ${phase.name}.`);
    }
    this.#microphone = microphone;
    return new Promise((resolve, reject) => {
      const wish = { room, fulfilled: false, resolve, reject };
      void this.#join(phase.connection, wish, phase.name === 'in_room' ? phase : undefined);
    });
  }

  /** Goes back to the lobby; resolves when the gateway knows. */
  async leave(): Promise<void> {
    this.#forget(new RequestError('left', 'The room was left.', false));
    const phase = this.#phase;
    if (phase.name === 'reconnecting') {
      const { name, reason, attempt, retryAt } = phase;
      this.#enter({ name, reason, attempt, retryAt });
    } else if (phase.name === 'in_room' || phase.name === 'joining') {
      const { connection } = phase;
      this.#enter({ name: 'lobby', connection });
      await connection.request({ type: 'leave' });
    }
  }

  mute(): Promise<void> {
    return this.#setMuted(true);
  }

  unmute(): Promise<void> {
    return this.#setMuted(false);
  }

  /** Speaks with another track from now on, or (`null`) only listens. @throws {RequestError} */
  async setMicrophone(track: MediaStreamTrack | null): Promise<void> {
    this.#microphone = track;
    await roomOf(this.#phase)?.media.speakWith(track);
  }

  /** Plays what the browser refused to play without a click; call it in one. */
  resumePlayback(): void {
    roomOf(this.#phase)?.media.resumePlayback();
  }

  /** The WebRTC statistics of both transports, when in a room. */
  async stats(): Promise<{ send: RTCStatsReport; recv: RTCStatsReport } | undefined> {
    return roomOf(this.#phase)?.media.stats();
  }

  /** Ends everything that the client opened. The microphone's track is not stopped: it is the caller's. */
  close(): void {
    this.#link.close();
    const message = 'The connection was closed here.';
    this.#end({ code: 'closed', closeCode: 1000, message, retryable: false });
  }

  /** Muting holds also for rooms that are joined later. The track is silent at once, whatever the gateway answers. */
  async #setMuted(muted: boolean): Promise<void> {
    this.#muted = muted;
    const told = roomOf(this.#phase)?.media.setMuted(muted);
    this.#changed();
    await told;
  }

  /** The one place where the phase changes, and where a room that is not in the next one is closed. */
  #enter(next: Phase): void {
    const room = roomOf(this.#phase);
    this.#phase = next;
    if (room !== roomOf(next)) room?.media.close();
    this.#changed();
  }

  readonly #changed = (): void => this.#events.emit('change', this.state);
  readonly #fault = (message: string): void => this.#events.emit('fault', message);

  #end(reason: CloseReason): void {
    if (this.#phase.name === 'closed') return;
    this.#forget(new ClosedError(reason));
    this.#enter({ name: 'closed', reason });
  }

  #forget(error: Error): void {
    this.#wish?.reject(error); // means nothing to a join() that has come to its end
    this.#wish = undefined;
  }

  #received(connection: Connection, message: ServerMessage): void {
    // An `error` that answers nothing comes before a close, and Connection makes the close's reason of it.
    const phase = this.#phase;
    roomOf(phase)?.receive(message);
    if (phase.name !== 'in_room') return;
    if (message.type === 'media_restarted') void this.#join(connection, phase.wish);
    if (message.type === 'left') {
      this.#forget(new RequestError('left', 'The gateway ended the stay in the room.', false));
      this.#fault(`The gateway ended the stay in the room (${message.reason}).`);
      this.#enter({ name: 'lobby', connection });
    }
  }

  /** The audio found no way: with a gateway that answers, over new transports; else over a new connection. */
  #mediaLost(connection: Connection, error: RequestError): void {
    if (error.code === 'timeout') return connection.fail(error.message);
    this.#fault(error.message);
    if (this.#phase.name === 'in_room') void this.#join(connection, this.#phase.wish);
  }

  async #join(connection: Connection, wish: Wish, from?: InRoom): Promise<void> {
    if (from) from.wish.reject(new RequestError('moved', 'Moved to another room.', false));
    this.#wish = wish;
    const joining: Phase = { name: 'joining', connection, wish, ...(from && { from }) };
    this.#enter(joining);
    let room: Room | undefined;
    // Whatever changed the phase while we waited (left, closed, connection lost) has seen to the wish too.
    const superseded = () => (room ? room !== roomOf(this.#phase) : joining !== this.#phase);
    try {
      const device = new Device();
      const capabilities = this.#capabilities.get(connection);
      const joined = await connection.request({
        type: 'join',
        room: wish.room,
        media: 'webrtc',
        ...(capabilities && { rtp_capabilities: capabilities }),
      });
      if (superseded()) return;
      room = new Room(this.peer, connection, device, joined, this.#muted, {
        changed: this.#changed,
        fault: this.#fault,
        playbackBlocked: () => this.#events.emit('playback_blocked', undefined),
        mediaLost: (error) => this.#mediaLost(connection, error),
      });
      this.#enter({ name: 'in_room', connection, room, wish });
      await room.media.opened();
      if (superseded()) return;
      this.#capabilities.set(connection, device.recvRtpCapabilities);
      await room.media.speakWith(this.#microphone).catch((error: Error) => {
        if (!superseded()) this.#fault(`You cannot be heard: ${error.message}`);
      });
      if (superseded()) return;
      wish.fulfilled = true;
      wish.resolve();
    } catch (thrown) {
      if (superseded()) return;
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      this.#joinFailed(connection, wish, error, room ? undefined : from);
    }
  }

  #joinFailed(connection: Connection, wish: Wish, error: Error, from?: InRoom): void {
    const refusal = error instanceof RequestError ? error : undefined;
    if (refusal?.code === 'timeout' || (wish.fulfilled && refusal?.retryable)) {
      connection.fail(error.message); // and join it again over the next
      return;
    }
    wish.reject(error);
    if (wish.fulfilled) this.#fault(error.message);
    this.#wish = from?.wish;
    this.#enter(from ?? { name: 'lobby', connection });
    // The gateway may still see us in the room. That it does not, or is gone, is no further harm.
    if (!from) connection.request({ type: 'leave' }).catch(() => undefined);
  }
}

const roomOf = (phase: Phase): Room | undefined => {
  if (phase.name === 'joining') return phase.from?.room;
  return phase.name === 'in_room' ? phase.room : undefined;
};
