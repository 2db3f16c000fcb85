import { Device, type types } from 'mediasoup-client';
import type { ServerMessage } from '../src/protocol/messages.ts';
import { RequestError, type Connection, type MessageOf } from './connection.ts';
import { Link, type Pause } from './link.ts';
import type { MediaSession } from './media.ts';
import { roomOf, stateOf, type InRoom, type Phase, type Wish } from './phase.ts';
import type { CloseReason } from './retry.ts';
import { Room } from './room.ts';
import {
  ClosedError,
  Events,
  type ClientEvents,
  type ClientOptions,
  type ClientState,
} from './state.ts';

const LOBBY = '__lobby__';

/**
 * A peer of the gateway: one WebSocket, WebRTC audio, one room at a time.
 *
 *     const client = new PartylineClient({ getToken, peer: 'ada' });
 *     await client.connect();
 *     await client.join('kitchen', microphoneTrack);
 *
 * It plays what it hears. When the connection breaks it reconnects by itself, and is in its room again; `state` tells. The sound
 * goes on meanwhile, if the gateway is only out of reach.
 */
export class PartylineClient {
  readonly peer: string;
  readonly #link: Link;
  readonly #events = new Events<ClientEvents>();
  /** RTP capabilities of the Device; a hint for the next join on the same node. */
  readonly #capabilities = new WeakMap<Connection, types.RtpCapabilities>();
  #phase: Phase = { name: 'idle' };
  #wish: Wish | undefined;
  /** Credentials that resume the session on another connection. */
  #session: { session_id: string; resume_token: string } | undefined;
  #microphone: MediaStreamTrack | null = null;
  #muted = false;

  constructor({ getToken, peer, url = '/ws' }: ClientOptions) {
    this.peer = peer;
    const endpoint = new URL(url, location.href);
    endpoint.protocol = endpoint.protocol.replace(/^http/, 'ws');
    const getAddress = async () => {
      const token = await getToken();
      const query = new URLSearchParams({ room: LOBBY, peer, token, ...this.#session });
      endpoint.search = query.toString();
      return endpoint;
    };
    this.#link = new Link(getAddress, {
      opening: () => {
        if (this.#phase.name === 'reconnecting') this.#changed();
        else this.#enter({ name: 'connecting' });
      },
      up: (connection, welcome) => this.#welcomed(connection, welcome),
      received: (connection, message) => this.#received(connection, message),
      down: (pause) => this.#lost(pause),
      ended: (reason) => this.#end(reason),
    });
  }

  /** Listens until `signal` aborts, or the returned function is called. */
  readonly on: Events<ClientEvents>['on'] = (...parameters) => this.#events.on(...parameters);

  get state(): ClientState {
    return stateOf(this.#phase);
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
      this.#enter({ name: phase.name, pause: phase.pause });
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
    await this.#tell((media) => media.speakWith(track));
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
    const told = this.#tell((media) => media.setMuted(muted));
    this.#changed();
    await told;
  }

  /** A request that fails because the room is joined again meanwhile is repeated there. */
  async #tell(change: (media: MediaSession) => Promise<void>): Promise<void> {
    const room = roomOf(this.#phase);
    if (!room) return;
    try {
      await change(room.media);
    } catch (error) {
      if (room === roomOf(this.#phase)) throw error;
    }
  }

  /** The one place where the phase changes, and where a room that is not in the next one is closed. */
  #enter(next: Phase): void {
    const room = roomOf(this.#phase);
    this.#phase = next;
    if (room !== roomOf(next)) room?.close();
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

  #lost(pause: Pause): void {
    const phase = this.#phase;
    const wish = this.#wish;
    let kept = phase.name === 'reconnecting' ? phase.kept : undefined;
    if (phase.name === 'in_room' && wish?.fulfilled && phase.room.suspend()) kept = phase.room;
    this.#enter({ name: 'reconnecting', pause, ...(wish && { wish }), ...(kept && { kept }) });
  }

  #welcomed(connection: Connection, welcome: MessageOf<'welcome'>): void {
    const { session_id, resume_token, room } = welcome;
    this.#session = { session_id, resume_token };
    if (room !== LOBBY) return; // we are where we were, and `joined` tells what is there
    if (this.#wish) void this.#join(connection, this.#wish);
    else this.#enter({ name: 'lobby', connection });
  }

  /** The gateway has kept our place; we may have changed our mind, or not have kept what belongs to it. */
  #resumed(connection: Connection, joined: MessageOf<'joined'>): void {
    const phase = this.#phase;
    const room = phase.name === 'reconnecting' ? phase.kept : undefined;
    const wish = this.#wish;
    if (room && wish) {
      room.resume(connection, joined);
      this.#enter({ name: 'in_room', connection, room, wish });
    } else if (wish) void this.#join(connection, wish);
    else {
      this.#enter({ name: 'lobby', connection });
      this.#leaveQuietly(connection);
    }
  }

  /** That the gateway does not see us in the room any more, or is gone, is no further harm. */
  #leaveQuietly(connection: Connection): void {
    connection.request({ type: 'leave' }).catch(() => undefined);
  }

  #received(connection: Connection, message: ServerMessage): void {
    // An `error` that answers nothing comes before a close, and Connection makes the close's reason of it.
    const phase = this.#phase;
    if (message.type === 'joined') return this.#resumed(connection, message); // answers no request
    roomOf(phase)?.receive(message);
    if (phase.name !== 'in_room') return;
    if (message.type === 'media_restarted') void this.#join(connection, phase.wish);
    if (message.type === 'left') {
      this.#forget(new RequestError('left', 'The gateway ended the stay in the room.', false));
      this.#fault(`The gateway ended the stay in the room (${message.reason}).`);
      this.#enter({ name: 'lobby', connection });
    }
  }

  /** The audio found no way: new transports may. */
  #mediaLost(error: RequestError): void {
    this.#fault(error.message);
    const phase = this.#phase;
    if (phase.name === 'in_room') void this.#join(phase.connection, phase.wish);
    else if (phase.name === 'reconnecting') {
      const { name, pause, wish } = phase;
      this.#enter({ name, pause, ...(wish && { wish }) });
    }
  }

  async #join(connection: Connection, wish: Wish, from?: InRoom): Promise<void> {
    if (from) from.wish.reject(new RequestError('moved', 'Moved to another room.', false));
    this.#wish = wish;
    const joining: Phase = { name: 'joining', connection, wish, ...(from && { from }) };
    this.#enter(joining);
    let room: Room | undefined;
    // Any change of phase meanwhile (left, closed, connection lost) has dealt with the wish, too.
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
        mediaLost: (error) => this.#mediaLost(error),
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
    if (!from) this.#leaveQuietly(connection);
  }
}
