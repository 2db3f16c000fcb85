import type { ServerMessage } from '../../../src/protocol/messages.ts';
import type { Connection, MessageOf } from './connection.ts';
import { ClosedError, RequestError } from './errors.ts';
import { Events } from './events.ts';
import { Link, type Pause } from './link.ts';
import { loadAudio } from './load-audio.ts';
import { roomOf, stateOf, type InRoom, type Phase, type Wish } from './phase.ts';
import type { CloseReason } from './retry.ts';
import type { AudioParts, RoomAudio, SoundSettings } from './room-audio.ts';
import { Room } from './room.ts';
import type {
  AudioAssets,
  ClientEvents,
  ClientOptions,
  ClientState,
  RemotePeer,
  Transport,
} from './state.ts';
import { type ClientStats, StatsMeter } from './stats.ts';
import { wayMemory } from './way-memory.ts';
import { Ways } from './ways.ts';

const TRANSPORTS: readonly Transport[] = ['webrtc', 'websocket'];
const MAX_GAIN = 4;

const LOBBY = '__lobby__';
/** How often it is looked at how sound does, ms. */
const LOOK_EVERY_MS = 500;

/**
 * A peer of the gateway: one WebSocket, audio over WebRTC or over the WebSocket, one room at a time.
 *
 *     const client = new PartylineClient({ url: 'wss://voice.example.com/ws', peer: 'ada', getToken });
 *     await client.connect();
 *     const microphone = await Microphone.open();
 *     await client.join('kitchen', microphone.track);
 *
 * It plays what it hears. When the connection breaks it reconnects by itself, and is in its room again; `state` tells. The sound
 * goes on meanwhile, if the gateway is only out of reach.
 */
export class PartylineClient {
  readonly peer: string;
  readonly #link: Link;
  readonly #events = new Events<ClientEvents>();
  readonly #assets: AudioAssets;
  readonly #settings: SoundSettings = {
    microphone: null,
    muted: false,
    volumes: new Map(),
    speakerId: '',
    toldMuted: false,
  };
  #phase: Phase = { name: 'idle' };
  #wish: Wish | undefined;
  /** Credentials that resume the session on another connection. */
  #session: { session_id: string; resume_token: string } | undefined;
  readonly #ways: Ways;
  #lookTimer: number | undefined;
  #isChanging = false;
  #transport: Transport | undefined;
  /** Rates of the audio that is open. */
  #meter: { audio: RoomAudio; stats: StatsMeter } | undefined;

  /** @throws {TypeError} no transport is named */
  constructor({ getToken, peer, url = '/ws', transports = TRANSPORTS, assets }: ClientOptions) {
    if (transports.length === 0) throw new TypeError('transports names at least one.');
    this.peer = peer;
    // Bundlers know files that are named so, and copy them.
    this.#assets = {
      worklet: assets?.worklet ?? new URL('./worklet.js', import.meta.url),
      decoder: assets?.decoder ?? new URL('./decoder-worker.js', import.meta.url),
      encoder: assets?.encoder ?? new URL('./encoder-worker.js', import.meta.url),
    };
    const sound = transports.includes('websocket') ? { audio: 'opus', stats: 'true' } : {};
    const endpoint = new URL(url, location.href);
    endpoint.protocol = endpoint.protocol.replace(/^http/, 'ws');
    this.#ways = new Ways(transports, wayMemory(endpoint.host));
    const getAddress = async () => {
      const token = await getToken();
      const query = new URLSearchParams({ room: LOBBY, peer, token, ...sound, ...this.#session });
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
    return this.#settings.muted;
  }

  /** Everyone else in the room, by name; empty outside of rooms. */
  get peers(): ReadonlyMap<string, RemotePeer> {
    return roomOf(this.#phase)?.peers ?? new Map();
  }

  /** Peers that speak now, with levels in dBov (undefined if the level is unknown); this client included. */
  get speaking(): ReadonlyMap<string, number | undefined> {
    return roomOf(this.#phase)?.speaking ?? new Map();
  }

  /** How sound goes and comes; undefined outside of rooms. */
  get transport(): Transport | undefined {
    return this.#transport;
  }

  /** The sum of all others over the WebSocket, as a track; undefined over WebRTC, where each peer has a track. */
  get mixTrack(): MediaStreamTrack | undefined {
    return roomOf(this.#phase)?.audio.mixTrack;
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
    // Loaded meanwhile; join() tells whether that failed.
    loadAudio(this.#ways.present).catch(() => undefined);
    if (this.#ways.areSeveral) {
      this.#lookTimer = window.setInterval(() => void this.#considerWays(), LOOK_EVERY_MS);
    }
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
    this.#settings.microphone = microphone;
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
    this.#settings.microphone = track;
    await this.#tell((audio) => audio.applyMicrophone());
  }

  /**
   * Sets how loud a peer is heard here, in this room and in later ones. Over the WebSocket in steps of 1 dB.
   * @param gain 0 (not heard) to 4; 1 is as it was sent
   * @throws {RangeError}
   * @throws {RequestError}
   */
  async setVolume(peer: string, gain: number): Promise<void> {
    if (!(gain >= 0 && gain <= MAX_GAIN)) throw new RangeError(`A gain is 0 to ${MAX_GAIN}.`);
    this.#settings.volumes.set(peer, gain);
    await this.#tell((audio) => audio.applyVolume(peer));
  }

  /** How loud a peer is heard here: what `setVolume()` has set, or 1. */
  volumeOf(peer: string): number {
    return this.#settings.volumes.get(peer) ?? 1;
  }

  /**
   * Plays on another device, where the browser can; on others it goes on with the default one.
   * @param deviceId of a `MediaDeviceInfo`; empty: the default speakers
   * @throws {DOMException} no such device, or not allowed
   */
  async setSpeaker(deviceId: string): Promise<void> {
    this.#settings.speakerId = deviceId;
    await this.#tell((audio) => audio.applySpeaker());
  }

  /** Plays what the browser refused to play without a click; call it in one. */
  resumePlayback(): void {
    roomOf(this.#phase)?.audio.resumePlayback();
  }

  /** Statistics of the sound since the last call, the same for all transports; undefined outside of rooms. */
  async stats(): Promise<ClientStats | undefined> {
    const audio = roomOf(this.#phase)?.audio;
    if (!audio) return undefined;
    if (this.#meter?.audio !== audio)
      this.#meter = { audio, stats: new StatsMeter(audio.openedMs) };
    const { stats } = this.#meter;
    return stats.measure(audio.transport, await audio.counters(), performance.now());
  }

  /** The browser's own statistics of both WebRTC transports; undefined over the WebSocket. */
  async rtcStats(): Promise<{ send: RTCStatsReport; recv: RTCStatsReport } | undefined> {
    return roomOf(this.#phase)?.audio.rtcStats();
  }

  /** Ends everything that the client opened. The microphone's track is not stopped: it is the caller's. */
  close(): void {
    this.#link.close();
    const message = 'The connection was closed here.';
    this.#end({ code: 'closed', closeCode: 1000, message, retryable: false });
  }

  /** Muting holds also for rooms that are joined later. The track is silent at once, whatever the gateway answers. */
  async #setMuted(muted: boolean): Promise<void> {
    this.#settings.muted = muted;
    const told = this.#tell((audio) => audio.applyMuted());
    this.#changed();
    await told;
  }

  /** A request that fails because the room is joined again meanwhile is repeated there. */
  async #tell(change: (audio: RoomAudio) => Promise<void>): Promise<void> {
    const room = roomOf(this.#phase);
    if (!room) return;
    try {
      await room.apply(change);
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

  readonly #changed = (): void => {
    const transport = roomOf(this.#phase)?.audio.transport;
    const isOther = transport !== this.#transport;
    this.#transport = transport;
    this.#events.emit('change', this.state);
    if (isOther) this.#events.emit('transport', transport);
  };
  readonly #fault = (message: string): void => this.#events.emit('fault', message);

  #end(reason: CloseReason): void {
    if (this.#phase.name === 'closed') return;
    window.clearInterval(this.#lookTimer);
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
    const { session_id, resume_token, room, resumed, network } = welcome;
    this.#ways.onNetwork(network, performance.now());
    if (!resumed) this.#settings.toldMuted = false;
    this.#session = { session_id, resume_token };
    if (room !== LOBBY) return; // we are where we were, and `joined` tells what is there
    if (this.#wish) void this.#join(connection, this.#wish);
    else this.#enter({ name: 'lobby', connection });
  }

  /** The gateway has kept our place; we may have changed our mind, or not have kept what belongs to it. */
  #resumed(connection: Connection, joined: MessageOf<'joined'>): void {
    const phase = this.#phase;
    if (phase.name === 'joining') return; // taken to its room by another node, and asks for it anyway
    const room = phase.name === 'reconnecting' ? phase.kept : undefined;
    const wish = this.#wish;
    if (room && wish) {
      if (room.resume(connection, joined)) {
        this.#enter({ name: 'in_room', connection, room, wish });
      } else void this.#join(connection, wish);
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
    const isHere = phase.name === 'in_room'; // then `joined` stands for events that were not sent
    if (message.type === 'joined' && !isHere) return this.#resumed(connection, message); // answers no request
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
      const transport = this.#ways.present;
      const openAudio = await loadAudio(transport);
      if (superseded()) return;
      const joined = await connection.request({
        type: 'join',
        room: wish.room,
        ...(transport === 'webrtc' && { media: transport }),
      });
      if (superseded()) return;
      room = this.#openRoom(connection, joined, openAudio);
      this.#enter({ name: 'in_room', connection, room, wish });
      await room.audio.opened();
      if (superseded()) return;
      await room.audio.applyMicrophone().catch((error: Error) => {
        if (!superseded()) this.#fault(`You cannot be heard: ${error.message}`);
      });
      if (superseded()) return;
      wish.fulfilled = true;
      wish.resolve();
    } catch (thrown) {
      if (superseded()) return;
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      const isOurs = !(error instanceof RequestError);
      if (isOurs && this.#ways.giveUpPreferred(performance.now())) {
        void this.#join(connection, wish, room ? undefined : from);
        return;
      }
      this.#joinFailed(connection, wish, error, room ? undefined : from);
    }
  }

  /** Looks how sound does, and lets it go another way if it does badly, or if a better one may be open again. */
  async #considerWays(): Promise<void> {
    const phase = this.#phase;
    if (phase.name !== 'in_room' || !phase.wish.fulfilled || this.#isChanging) return;
    const { room } = phase;
    this.#isChanging = true;
    try {
      const health = await room.health(performance.now());
      const transport = this.#ways.next(health, performance.now());
      if (transport && room === roomOf(this.#phase)) await this.#changeWay(room, transport);
    } finally {
      this.#isChanging = false;
    }
  }

  async #changeWay(room: Room, transport: Transport): Promise<void> {
    try {
      const openAudio = await loadAudio(transport);
      await room.change(transport, openAudio);
      this.#ways.changed(transport, performance.now());
      this.#changed();
    } catch {
      // The old way goes on, and `isInterrupted` says so where it does not carry.
      this.#ways.failed(performance.now());
    }
  }

  #openRoom(
    connection: Connection,
    joined: MessageOf<'joined'>,
    openAudio: (parts: AudioParts) => RoomAudio,
  ): Room {
    return new Room({
      self: this.peer,
      connection,
      joined,
      openAudio,
      settings: this.#settings,
      assets: this.#assets,
      handlers: {
        changed: this.#changed,
        fault: this.#fault,
        playbackBlocked: () => this.#events.emit('playback_blocked', undefined),
        mediaLost: (error) => this.#mediaLost(error),
      },
    });
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
