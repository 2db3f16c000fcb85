import { Device, type types } from 'mediasoup-client';
import type { ServerMessage } from '../../../../src/protocol/messages.ts';
import type {
  ConsumerDescription,
  TransportDescription,
  WebRtcDescription,
} from '../../../../src/protocol/webrtc-descriptions.ts';
import type { MessageOf, SendRequest } from '../connection.ts';
import { RequestError } from '../errors.ts';
import { tellMute } from '../muting.ts';
import type { AudioHandlers, AudioParts, RoomAudio, SoundSettings } from '../room-audio.ts';
import type { AudioCounters } from '../stats.ts';
import { countersOf } from './count-rtc.ts';
import { keepIceAlive } from './ice.ts';
import { repeatRefused } from './repeat-refused.ts';
import { openSilence, type Silence } from './silence.ts';
import { Playback } from './playback.ts';

/**
 * WebRTC audio of one stay in one room: mediasoup-client's transports, one producer, and a consumer for each peer that is heard.
 * mediasoup and mediasoup-client describe the same JSON by two sets of types that differ in optional fields: hence the casts.
 */

const CODEC_OPTIONS = { opusStereo: false, opusDtx: true, opusFec: true };

export class WebRtcAudio implements RoomAudio {
  readonly transport = 'webrtc';
  readonly openedMs = performance.now();
  readonly mixTrack = undefined;
  /** Always false: WebRTC records without a click. For playback see `isPlaybackBlocked`. */
  readonly isStopped = false;
  /** The gateway reports packets that do not arrive (`rtp_flow`). */
  readonly unsent = undefined;
  readonly #request: SendRequest;
  readonly #settings: SoundSettings;
  readonly #handlers: AudioHandlers;
  readonly #playback: Playback;
  readonly #closing = new AbortController();
  readonly #consumers = new Map<string, { peer: string; consumer: types.Consumer }>();
  /** Ids of consumers that wait for their turn; an id is removed if its consumer is closed before. */
  readonly #announced = new Set<string>();
  readonly #broken = new Set<types.Transport>();
  /** Transports whose `connect_transport` request has no answer yet. */
  readonly #connecting = new Set<types.Transport>();
  /** Times of the answers to `connect_transport`, ms of `performance.now()`. */
  readonly #answeredMs = new Map<types.Transport, number>();
  /** Number of `resume_consumer` requests under way, or refused and to be repeated. */
  #resuming = 0;
  readonly #opened: Promise<void>;
  #consuming: Promise<void>;
  #speaking: Promise<void>;
  #sendTransport: types.Transport | undefined;
  #recvTransport: types.Transport | undefined;
  #producer: types.Producer | undefined;
  #silence: Silence | undefined;

  /** @throws {Error} if the answer to the join has no description of WebRTC transports */
  constructor({ joined, wire, settings, handlers }: AudioParts) {
    if (!joined.webrtc) throw new Error('The gateway offers no WebRTC here.');
    this.#request = repeatRefused(wire.request, this.#closing.signal);
    this.#settings = settings;
    this.#handlers = handlers;
    this.#playback = new Playback(handlers.playbackBlocked, settings.speakerId);
    this.#opened = this.#open(joined.webrtc);
    // Requests wait until the Device is loaded; opened() tells whether that failed.
    this.#consuming = this.#opened.catch(() => undefined);
    this.#speaking = this.#consuming;
  }

  get #closed(): boolean {
    return this.#closing.signal.aborted;
  }

  get isPlaybackBlocked(): boolean {
    return this.#playback.isBlocked;
  }

  /** True while the path to the gateway is broken and being restored. */
  get isPathBroken(): boolean {
    return this.#broken.size > 0;
  }

  /** True if each transport that needs a path has one. A transport in the state `new` needs none until its connection is requested. */
  get hasPath(): boolean {
    return [this.#sendTransport, this.#recvTransport].every((transport) => {
      if (!transport || transport.connectionState === 'connected') return true;
      return transport.connectionState === 'new' && !this.#connecting.has(transport);
    });
  }

  get isAskingForPath(): boolean {
    const isSearching = [this.#sendTransport, this.#recvTransport].some(
      (transport) => transport && !['new', 'connected'].includes(transport.connectionState),
    );
    return this.#connecting.size > 0 && !isSearching;
  }

  get isAskingForAudio(): boolean {
    return this.#resuming > 0;
  }

  get searchedMs(): number {
    const nowMs = performance.now();
    const searched = [...this.#answeredMs].map(([{ connectionState }, answeredMs]) =>
      connectionState === 'connected' ? 0 : nowMs - answeredMs,
    );
    return Math.max(0, ...searched);
  }

  /** Resolves when the transports exist. @throws if the browser cannot do what the room needs */
  opened(): Promise<void> {
    return this.#opened;
  }

  /**
   * Sends the microphone of the settings, or nothing if there is none. The caller owns the track, and stops it.
   * @throws {RequestError} if the gateway refuses
   */
  applyMicrophone(): Promise<void> {
    return this.#speak(() => this.#settings.microphone);
  }

  /** Sends a track after those that were given before: two at once would each get a producer. @throws {RequestError} */
  #speak(track: () => MediaStreamTrack | null): Promise<void> {
    const turn = this.#speaking.then(() => this.#speakNow(track()));
    this.#speaking = turn.catch(() => undefined); // told to this caller, not to the next
    return turn;
  }

  async prove(): Promise<void> {
    if (this.#closed) return; // given up while it was being opened
    const { microphone, muted } = this.#settings;
    // A track that has ended cannot be given to a producer.
    const speaks = !muted && microphone !== null && microphone.readyState !== 'ended';
    try {
      if (speaks) {
        await this.applyMicrophone();
        return;
      }
      const silence = openSilence();
      this.#silence = silence;
      await this.#speak(() => silence.track);
    } catch (error) {
      // A peer that may only listen has nothing to prove.
      if (!(error instanceof RequestError) || error.code !== 'forbidden') throw error;
    }
  }

  /** Does nothing: volumes are applied in the browser, and the mute is told with the microphone. */
  applySettings(): Promise<void> {
    return Promise.resolve();
  }

  /** Silences the track at once, then tells the gateway. @throws {RequestError} */
  async applyMuted(): Promise<void> {
    if (this.#closed) return;
    const { microphone } = this.#settings;
    if (this.#producer) await this.#tellMuted(this.#producer);
    else if (microphone) microphone.enabled = !this.#settings.muted; // `produce` may have no answer yet
    const { muted, toldMuted } = this.#settings;
    if (!toldMuted || muted) return;
    // A mute by an operator, or one that was told over the WebSocket, also applies to WebRTC.
    await tellMute(this.#request, this.#settings);
  }

  applyVolume(peer: string): Promise<void> {
    this.#playback.setGain(peer, this.#gainOf(peer));
    return Promise.resolve();
  }

  applySpeaker(): Promise<void> {
    return this.#playback.setSpeaker(this.#settings.speakerId);
  }

  receive(message: ServerMessage): void {
    if (message.type === 'new_consumer') this.#consume(message);
    else if (message.type === 'consumer_closed') this.#closeConsumer(message.consumer_id);
  }

  /** Continues with the same transports, and with the consumers that `joined` lists. */
  resume({ consumers = [] }: MessageOf<'joined'>): void {
    this.#consumeOnly(consumers);
  }

  /** Adds a consumer after those that were announced before it: there can be one offer and answer at a time. */
  #consume(announced: ConsumerDescription): void {
    const { consumer_id: id } = announced;
    if (this.#closed || this.#announced.has(id) || this.#consumers.has(id)) return;
    this.#announced.add(id);
    this.#consuming = this.#consuming.then(() => this.#consumeNow(announced));
  }

  /** Keeps or adds these consumers, and closes all others. */
  #consumeOnly(consumers: ConsumerDescription[]): void {
    const wanted = new Set(consumers.map(({ consumer_id: id }) => id));
    for (const id of [...this.#announced, ...this.#consumers.keys()]) {
      if (!wanted.has(id)) this.#closeConsumer(id);
    }
    for (const consumer of consumers) this.#consume(consumer);
  }

  #closeConsumer(consumerId: string): void {
    this.#announced.delete(consumerId);
    const entry = this.#consumers.get(consumerId);
    if (!entry) return;
    this.#consumers.delete(consumerId);
    entry.consumer.close();
    this.#playback.remove(consumerId);
    // The handler calls trackOf(): a peer that came back at once may already have a newer consumer.
    this.#handlers.trackChanged(entry.peer);
  }

  /** Audio of a peer. */
  trackOf(peer: string): MediaStreamTrack | undefined {
    const entries = [...this.#consumers.values()];
    return entries.findLast((entry) => entry.peer === peer)?.consumer.track;
  }

  /** Resumes playback. Call it in the handler of a click, if the browser requires one. */
  resumePlayback(): void {
    this.#playback.resume();
  }

  /** Returns the WebRTC statistics of both transports; undefined if the audio is closed meanwhile. */
  async rtcStats(): Promise<{ send: RTCStatsReport; recv: RTCStatsReport } | undefined> {
    if (this.#closed || !this.#sendTransport || !this.#recvTransport) return undefined;
    const stats = Promise.all([this.#sendTransport.getStats(), this.#recvTransport.getStats()]);
    const listening = new AbortController();
    // In Firefox, a getStats() that is pending when its connection is closed never settles.
    const closed = new Promise<undefined>((resolve) => {
      const { signal } = listening;
      this.#closing.signal.addEventListener('abort', () => resolve(undefined), { signal });
    });
    try {
      const reports = await Promise.race([stats, closed]);
      return reports && { send: reports[0], recv: reports[1] };
    } finally {
      listening.abort();
    }
  }

  async counters(): Promise<AudioCounters> {
    return countersOf(await this.rtcStats());
  }

  async packetsReceived(): Promise<number> {
    return (await this.counters()).packetsReceived;
  }

  /** Does nothing: the browser sets the delay. */
  setHurried(): void {}

  /** Closes everything at once: little waits to be played. */
  retire(): void {
    this.close();
  }

  /** Closes everything; no handler is called. */
  close(): void {
    if (this.#closed) return;
    this.#closing.abort();
    this.#silence?.close();
    this.#sendTransport?.close();
    this.#recvTransport?.close();
    this.#playback.close();
    this.#consumers.clear();
    this.#announced.clear();
  }

  async #open(description: WebRtcDescription): Promise<void> {
    const device = new Device();
    const routerRtpCapabilities = description.router_rtp_capabilities as types.RtpCapabilities;
    await device.load({ routerRtpCapabilities });
    if (this.#closed) return;
    this.#sendTransport = device.createSendTransport(optionsOf(description.send_transport));
    this.#recvTransport = device.createRecvTransport(optionsOf(description.recv_transport));
    this.#watch(this.#sendTransport);
    this.#watch(this.#recvTransport);
    this.#sendTransport.on('produce', ({ rtpParameters }, resolve, reject) => {
      this.#request({
        type: 'produce',
        transport_id: description.send_transport.id,
        kind: 'audio',
        rtp_parameters: rtpParameters,
      }).then(({ producer_id: id }) => resolve({ id }), reject);
    });
  }

  #watch(transport: types.Transport): void {
    const changed = (isBroken: boolean) => {
      if (isBroken) this.#broken.add(transport);
      else this.#broken.delete(transport);
      this.#handlers.pathChanged();
    };
    const { lost } = this.#handlers;
    const handlers = { changed, lost };
    const search = keepIceAlive(transport, this.#request, handlers, this.#closing.signal);
    transport.on('connect', ({ dtlsParameters }, resolve, reject) => {
      this.#connecting.add(transport);
      this.#request({
        type: 'connect_transport',
        transport_id: transport.id,
        dtls_parameters: dtlsParameters,
      })
        .finally(() => this.#connecting.delete(transport))
        .then(() => {
          this.#answeredMs.set(transport, performance.now());
          search();
          resolve();
        }, reject);
    });
  }

  #gainOf(peer: string): number {
    return this.#settings.volumes.get(peer) ?? 1;
  }

  async #speakNow(given: MediaStreamTrack | null): Promise<void> {
    if (this.#closed || !this.#sendTransport) return;
    // A track that has ended cannot be sent. The client tells the user that the microphone is gone.
    const track = given?.readyState === 'ended' ? null : given;
    if (this.#producer) {
      // Pause first: a producer that is not paused enables its new track.
      if (this.#settings.muted && !this.#producer.paused) await this.#tellMuted(this.#producer);
      if (track !== this.#producer.track) await this.#producer.replaceTrack({ track });
      if (track !== this.#silence?.track) this.#silence?.close();
      return;
    }
    if (!track) return;
    const isSilence = track === this.#silence?.track;
    if (!isSilence) track.enabled = !this.#settings.muted;
    const producer = await this.#sendTransport.produce({
      track,
      stopTracks: false,
      codecOptions: CODEC_OPTIONS,
    });
    if (this.#closed) return; // closing the transport closed the producer too
    this.#producer = producer;
    if (isSilence) return; // it is sent even if the client is muted
    // A producer of a disabled track starts paused. The gateway must be told this, and a mute since
    // then.
    if (this.#settings.muted || producer.paused) await this.#tellMuted(producer);
    if (this.#settings.toldMuted) await this.applyMuted();
  }

  async #consumeNow(announced: ConsumerDescription): Promise<void> {
    const { consumer_id: id, producer_id: producerId, peer, kind } = announced;
    const unwanted = () => this.#closed || !this.#announced.has(id);
    if (unwanted() || !this.#recvTransport) return;
    try {
      const rtpParameters = announced.rtp_parameters as types.RtpParameters;
      const consumer = await this.#recvTransport.consume({
        id,
        producerId,
        kind,
        rtpParameters,
        // In place of the peer's CNAME, which may not fit into SDP.
        streamId: id,
      });
      if (unwanted()) {
        consumer.close();
        return;
      }
      this.#announced.delete(id);
      this.#consumers.set(id, { peer, consumer });
      this.#playback.add(id, peer, consumer.track, this.#gainOf(peer));
      this.#handlers.trackChanged(peer);
      // Not awaited: the next consumer must not wait for this round trip.
      void this.#askForAudio(id, peer);
    } catch (error) {
      if (unwanted()) return;
      this.#announced.delete(id);
      this.#handlers.fault(cannotHear(peer, error));
    }
  }

  /** Asks for the audio of a consumer. Never rejects: a refusal is reported as a fault. */
  async #askForAudio(id: string, peer: string): Promise<void> {
    this.#resuming += 1;
    try {
      await this.#request({ type: 'resume_consumer', consumer_id: id });
    } catch (error) {
      if (this.#consumers.has(id)) this.#handlers.fault(cannotHear(peer, error));
    } finally {
      this.#resuming -= 1;
    }
  }

  async #tellMuted(producer: types.Producer): Promise<void> {
    const producerId = { producer_id: producer.id };
    if (this.#settings.muted) {
      producer.pause();
      await this.#request({ type: 'pause_producer', ...producerId });
    } else {
      producer.resume();
      await this.#request({ type: 'resume_producer', ...producerId });
    }
  }
}

const optionsOf = (description: TransportDescription) => ({
  id: description.id,
  iceParameters: description.ice_parameters,
  iceCandidates: description.ice_candidates,
  dtlsParameters: description.dtls_parameters,
  iceServers: description.ice_servers ?? [],
});

const wordsOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
const cannotHear = (peer: string, error: unknown) =>
  `${peer} cannot be heard here: ${wordsOf(error)}`;
