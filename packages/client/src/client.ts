import { DeviceWatch } from './device-watch.ts';
import { ClosedError } from './errors.ts';
import { Events } from './events.ts';
import { loadAudio } from './load-audio.ts';
import { stateOf } from './phase.ts';
import type { RoomAudio, SoundSettings } from './room-audio.ts';
import { LOBBY } from './lobby.ts';
import type { Resumption } from './session-parts.ts';
import { Session } from './session.ts';
import type { ClientEvents, ClientOptions, ClientState, RemotePeer, Transport } from './state.ts';
import { type ClientStats, StatsMeter } from './stats.ts';
import { transportMemory } from './transport-memory.ts';
import { TransportChooser } from './transport-chooser.ts';

const TRANSPORTS: readonly Transport[] = ['webrtc', 'websocket'];
const MAX_GAIN = 4;
/** Names that no peer can have. With those that are too long, they include all for which the gateway refuses a volume. */
const IMPOSSIBLE_NAME = /^$|^__|^\.\.?$|[\p{Cc}\p{Cs}]/u;
const MAX_NAME_CHARACTERS = 128;

/**
 * A peer of the gateway: one WebSocket, audio over WebRTC or over the WebSocket, one room at a time.
 *
 *     const client = new PartylineClient({ url: 'wss://voice.example.com/ws', peer: 'ada', getToken });
 *     await client.connect();
 *     const microphone = await Microphone.open();
 *     await client.join('kitchen', microphone.track);
 *
 * It plays the audio of the room. When the connection breaks it reconnects and rejoins its room by itself;
 * see `state`. Audio over WebRTC continues meanwhile, if the gateway still has it.
 */
export class PartylineClient {
  readonly peer: string;
  readonly #session: Session;
  readonly #events = new Events<ClientEvents>();
  readonly #settings: SoundSettings = {
    microphone: null,
    muted: false,
    volumes: new Map(),
    speakerId: '',
    toldMuted: false,
    pendingMutes: 0,
    answeredMuted: false,
    isMutedByGateway: false,
  };
  /** Speakers that the browser accepted last. */
  #acceptedSpeakerId = '';
  readonly #chooser: TransportChooser;
  readonly #devices: DeviceWatch;
  #connected: Promise<void> | undefined;
  #transport: Transport | undefined;
  /** Rates of the audio that is open. */
  #meter: { audio: RoomAudio; stats: StatsMeter } | undefined;

  /** @throws {TypeError} if `transports` is empty */
  constructor({ getToken, peer, url = '/ws', transports = TRANSPORTS, assets }: ClientOptions) {
    if (transports.length === 0) throw new TypeError('`transports` must not be empty.');
    this.peer = peer;
    const sound = transports.includes('websocket') ? { audio: 'opus', stats: 'true' } : {};
    const endpoint = new URL(url, location.href);
    endpoint.protocol = endpoint.protocol.replace(/^http/, 'ws');
    this.#chooser = new TransportChooser(transports, transportMemory(endpoint.host));
    this.#session = new Session({
      self: peer,
      getAddress: async (resumption: Resumption | undefined) => {
        const token = await getToken();
        const query = new URLSearchParams({ room: LOBBY, peer, token, ...sound, ...resumption });
        endpoint.search = query.toString();
        return endpoint;
      },
      chooser: this.#chooser,
      settings: this.#settings,
      // Bundlers recognize URLs of this form, and copy the files.
      assets: {
        worklet: assets?.worklet ?? new URL('./worklet.js', import.meta.url),
        decoder: assets?.decoder ?? new URL('./decoder-worker.js', import.meta.url),
        encoder: assets?.encoder ?? new URL('./encoder-worker.js', import.meta.url),
      },
      handlers: {
        changed: () => this.#changed(),
        fault: this.#fault,
        playbackBlocked: () => this.#events.emit('playback_blocked', undefined),
      },
    });
    this.#devices = new DeviceWatch(this.#settings, {
      speakerChanged: () => {
        this.#acceptedSpeakerId = this.#settings.speakerId;
        return this.#session.tell((room) => room.apply((audio) => audio.applySpeaker()));
      },
      fault: this.#fault,
    });
  }

  /** Listens until `signal` aborts, or the returned function is called. */
  readonly on: Events<ClientEvents>['on'] = (...parameters) => this.#events.on(...parameters);

  get state(): ClientState {
    return stateOf(this.#session.phase);
  }

  get muted(): boolean {
    return this.#settings.muted;
  }

  /** Everyone else in the room, by name; empty outside of rooms. */
  get peers(): ReadonlyMap<string, RemotePeer> {
    return this.#session.room?.peers ?? new Map();
  }

  /** Peers that speak now, with levels in dBov (undefined if the level is unknown); this client included. */
  get speaking(): ReadonlyMap<string, number | undefined> {
    return this.#session.room?.speaking ?? new Map();
  }

  /** Transport of the audio; undefined outside of rooms. */
  get transport(): Transport | undefined {
    return this.#transport;
  }

  /** Track with the mix of all other peers over the WebSocket; undefined over WebRTC, where each peer has a track. */
  get mixTrack(): MediaStreamTrack | undefined {
    return this.#session.room?.audio.mixTrack;
  }

  /**
   * Connects; resolves in the lobby, or while a room is being joined for which `join()` was called meanwhile. Later calls return the same.
   * @throws {ClosedError} if the gateway refuses permanently, or after `close()`
   */
  async connect(): Promise<void> {
    const { phase } = this.#session;
    if (phase.name === 'closed') throw new ClosedError(phase.reason);
    if (!this.#connected) {
      this.#connected = this.#whenConnected();
      this.#session.open();
      // Loaded meanwhile; join() reports a failure.
      loadAudio(this.#chooser.present).catch(() => undefined);
    }
    await this.#connected;
  }

  #whenConnected(): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = this.on('change', (state) => {
        if (!['lobby', 'joining', 'closed'].includes(state.name)) return;
        stop();
        if (state.name === 'closed') reject(new ClosedError(state.reason));
        else resolve();
      });
    });
  }

  /**
   * Joins a room, or moves to it from another, and speaks there with `microphone` (without one: only listens). The
   * caller still owns the track, and stops it. Resolves when the audio is open in both directions; while the connection is
   * broken, that is after the next one is open.
   * @throws {RequestError} when the join is refused: the client is then where it was, or in the lobby if the connection was broken
   * @throws {ClosedError} if the connection ended permanently
   */
  async join(room: string, microphone: MediaStreamTrack | null = null): Promise<void> {
    const { phase } = this.#session;
    const before = this.#settings.microphone;
    if (phase.name !== 'lobby' && phase.name !== 'in_room' && phase.name !== 'reconnecting') {
      throw new TypeError(`join() cannot be called while the client is ${phase.name}.`);
    }
    this.#settings.microphone = microphone;
    this.#devices.microphoneChanged();
    try {
      await this.#session.join(phase, room);
    } catch (error) {
      const { phase: now } = this.#session;
      // In the room before, or joining that again because its audio was lost.
      const isBack = phase.name === 'in_room' && 'wanted' in now && now.wanted === phase.wanted;
      const isInLobby = now.name === 'lobby' && phase.name !== 'in_room';
      if ((isBack || isInLobby) && this.#settings.microphone === microphone) {
        this.#settings.microphone = before;
        this.#devices.microphoneChanged();
        // A change of the transport may have taken the other one meanwhile.
        this.#session.tell((present) => present.applyMicrophone()).catch(() => undefined);
      }
      throw error;
    }
  }

  /** Returns to the lobby. Resolves when the gateway has answered. */
  leave(): Promise<void> {
    return this.#session.leave();
  }

  mute(): Promise<void> {
    return this.#setMuted(true);
  }

  unmute(): Promise<void> {
    return this.#setMuted(false);
  }

  /** Sends `track` from now on; with `null` the client only listens. @throws {RequestError} */
  async setMicrophone(track: MediaStreamTrack | null): Promise<void> {
    this.#settings.microphone = track;
    this.#devices.microphoneChanged();
    await this.#session.tell((room) => room.applyMicrophone());
  }

  /**
   * Sets how loud a peer is heard here, in this room and in later ones; over the WebSocket in steps of 1 dB.
   * @param gain 0 (not heard) to 4; 1 leaves the volume as it was sent
   * @throws {RangeError} for another gain, or a name that is empty, too long or reserved, or has control characters
   * @throws {RequestError}
   */
  async setVolume(peer: string, gain: number): Promise<void> {
    if (IMPOSSIBLE_NAME.test(peer) || Array.from(peer).length > MAX_NAME_CHARACTERS)
      throw new RangeError(
        `\`peer\` must have 1 to ${MAX_NAME_CHARACTERS} characters, none of them a control character, and must not be \`.\` or \`..\`, or begin with \`__\`.`,
      );
    if (!(gain >= 0 && gain <= MAX_GAIN))
      throw new RangeError(`\`gain\` must be between 0 and ${MAX_GAIN}.`);
    const { volumes } = this.#settings;
    if (gain === 1) volumes.delete(peer);
    else volumes.set(peer, gain);
    await this.#session.tell((room) => room.apply((audio) => audio.applyVolume(peer)));
  }

  /** Returns the volume of a peer here: the value of `setVolume()`, or 1. */
  volumeOf(peer: string): number {
    return this.#settings.volumes.get(peer) ?? 1;
  }

  /**
   * Plays audio on another device. Browsers without `setSinkId` keep the default device.
   * @param deviceId `deviceId` of a `MediaDeviceInfo`; an empty string selects the default speakers
   * @throws {DOMException} if there is no such device, or it is not allowed: the previous device stays in use
   */
  async setSpeaker(deviceId: string): Promise<void> {
    const settings = this.#settings;
    settings.speakerId = deviceId;
    const apply = () => this.#session.tell((room) => room.apply((audio) => audio.applySpeaker()));
    try {
      await apply();
      this.#acceptedSpeakerId = deviceId;
    } catch (error) {
      if (settings.speakerId === deviceId) {
        settings.speakerId = this.#acceptedSpeakerId;
        // Part of the audio may already play on the new device.
        await apply().catch(() => undefined);
      }
      throw error;
    }
  }

  /** Plays audio that the browser blocked until a click; call it in the handler of a click. */
  resumePlayback(): void {
    this.#session.room?.audio.resumePlayback();
  }

  /** Returns statistics of the audio since the last call, the same for all transports; undefined outside of rooms. */
  async stats(): Promise<ClientStats | undefined> {
    const audio = this.#session.room?.audio;
    if (!audio) return undefined;
    if (this.#meter?.audio !== audio)
      this.#meter = { audio, stats: new StatsMeter(audio.openedMs) };
    const { stats } = this.#meter;
    return stats.measure(audio.transport, await audio.counters(), performance.now());
  }

  /** Returns the browser's own statistics of both WebRTC transports; undefined over the WebSocket. */
  async rtcStats(): Promise<{ send: RTCStatsReport; recv: RTCStatsReport } | undefined> {
    return this.#session.room?.audio.rtcStats();
  }

  /** Closes everything that the client opened. The microphone's track is not stopped: it belongs to the caller. */
  close(): void {
    this.#session.close();
  }

  /** Mutes or unmutes in this room and in later ones. The track is silent at once, whatever the gateway answers. */
  async #setMuted(muted: boolean): Promise<void> {
    this.#settings.muted = muted;
    this.#settings.isMutedByGateway = false;
    const told = this.#session.tell((room) => room.apply((audio) => audio.applyMuted()));
    this.#changed();
    await told;
  }

  readonly #fault = (message: string): void => this.#events.emit('fault', message);

  #changed(): void {
    const transport = this.#session.room?.audio.transport;
    const isOther = transport !== this.#transport;
    this.#transport = transport;
    this.#events.emit('change', this.state);
    if (isOther) this.#events.emit('transport', transport);
    if (this.state.name === 'closed') this.#devices.close();
  }
}
