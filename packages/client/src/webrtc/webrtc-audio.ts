import { Device, type types } from 'mediasoup-client';
import type {
  ConsumerDescription,
  ServerMessage,
  TransportDescription,
  WebRtcDescription,
} from '../../../../src/protocol/messages.ts';
import type { MessageOf, SendRequest } from '../connection.ts';
import { RequestError } from '../errors.ts';
import { tellMute } from '../muting.ts';
import type { AudioHandlers, AudioParts, RoomAudio, SoundSettings } from '../room-audio.ts';
import type { AudioCounters } from '../stats.ts';
import { countersOf } from './count-rtc.ts';
import { keepIceAlive } from './ice.ts';
import { openSilence, type Silence } from './silence.ts';
import { Playback } from './playback.ts';

/**
 * The WebRTC side of one stay in one room: mediasoup-client's transports, one producer, a consumer for everyone heard.
 * mediasoup and mediasoup-client describe the same JSON by two sets of types that differ in optional fields: hence the casts.
 */

const CODEC_OPTIONS = { opusStereo: false, opusDtx: true, opusFec: true };

export class WebRtcAudio implements RoomAudio {
  readonly transport = 'webrtc';
  readonly openedMs = performance.now();
  readonly mixTrack = undefined;
  /** WebRTC records all the same: see `isPlaybackBlocked`. */
  readonly isStopped = false;
  readonly #request: SendRequest;
  readonly #settings: SoundSettings;
  readonly #handlers: AudioHandlers;
  readonly #playback: Playback;
  readonly #closing = new AbortController();
  readonly #consumers = new Map<string, { peer: string; consumer: types.Consumer }>();
  /** Consumers that wait for their turn; deleted here when they are closed before it. */
  readonly #announced = new Set<string>();
  readonly #broken = new Set<types.Transport>();
  /** Transports whose connection the gateway has been asked for, and has not answered. */
  readonly #connecting = new Set<types.Transport>();
  readonly #opened: Promise<void>;
  #consuming: Promise<void>;
  #speaking: Promise<void>;
  #sendTransport: types.Transport | undefined;
  #recvTransport: types.Transport | undefined;
  #producer: types.Producer | undefined;
  #silence: Silence | undefined;

  /** @throws when the answer to our join carries no WebRTC */
  constructor({ joined, wire, settings, handlers }: AudioParts) {
    if (!joined.webrtc) throw new Error('The gateway offers no WebRTC here.');
    this.#request = wire.request;
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

  /** The way to the gateway is broken, and being mended. */
  get isInterrupted(): boolean {
    return this.#broken.size > 0;
  }

  /** A transport on which nothing was asked for yet is in the state `new`, and needs no path. */
  get hasPath(): boolean {
    return [this.#sendTransport, this.#recvTransport].every((transport) => {
      if (!transport || transport.connectionState === 'connected') return true;
      return transport.connectionState === 'new' && !this.#connecting.has(transport);
    });
  }

  /** Resolves when the transports exist. @throws when the browser cannot do what the room needs */
  opened(): Promise<void> {
    return this.#opened;
  }

  /**
   * Speaks with the microphone of the settings, or with none. The track stays the caller's, who also stops it.
   * @throws {RequestError} when the gateway refuses
   */
  applyMicrophone(): Promise<void> {
    const turn = this.#speaking.then(() => this.#speakNow(this.#settings.microphone));
    this.#speaking = turn.catch(() => undefined); // told to this caller, not to the next
    return turn;
  }

  async prove(): Promise<void> {
    if (this.#closed) return; // given up while it was being opened
    const { microphone, muted } = this.#settings;
    // No producer can be made from a track that has ended.
    const speaks = !muted && microphone !== null && microphone.readyState !== 'ended';
    try {
      if (speaks) {
        await this.applyMicrophone();
        return;
      }
      this.#silence = openSilence();
      await this.#speakNow(this.#silence.track);
    } catch (error) {
      // A peer that may only listen is there when it can hear.
      if (!(error instanceof RequestError) || error.code !== 'forbidden') throw error;
    }
  }

  /** Volumes hold here alone, and mute was told with the microphone. */
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
    // Muted by an operator, or while sound went over the WebSocket: that holds here, too.
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

  /** The transports are the same; what changed meanwhile is told here. */
  resume({ consumers = [] }: MessageOf<'joined'>): void {
    this.#consumeOnly(consumers);
  }

  /** Hears one more producer, after those that were announced before it: one offer and answer at a time. */
  #consume(announced: ConsumerDescription): void {
    const { consumer_id: id } = announced;
    if (this.#closed || this.#announced.has(id) || this.#consumers.has(id)) return;
    this.#announced.add(id);
    this.#consuming = this.#consuming.then(() => this.#consumeNow(announced));
  }

  /** Hears these, and nobody else: what it hears already it goes on to hear. */
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
    // A peer that came back at once may already be heard through a newer consumer: hence trackOf().
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

  /** The WebRTC statistics of both transports; undefined if the audio is closed before they are there. */
  async rtcStats(): Promise<{ send: RTCStatsReport; recv: RTCStatsReport } | undefined> {
    if (this.#closed || !this.#sendTransport || !this.#recvTransport) return undefined;
    const stats = Promise.all([this.#sendTransport.getStats(), this.#recvTransport.getStats()]);
    const listening = new AbortController();
    // In Firefox a getStats() never settles that is pending when its connection is closed.
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

  /** Ends everything; calls nobody. */
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
    transport.on('connect', ({ dtlsParameters }, resolve, reject) => {
      this.#connecting.add(transport);
      this.#request({
        type: 'connect_transport',
        transport_id: transport.id,
        dtls_parameters: dtlsParameters,
      })
        .finally(() => this.#connecting.delete(transport))
        .then(resolve, reject);
    });
    const changed = (isBroken: boolean) => {
      if (isBroken) this.#broken.add(transport);
      else this.#broken.delete(transport);
      this.#handlers.pathChanged();
    };
    const { lost } = this.#handlers;
    keepIceAlive(transport, this.#request, { changed, lost }, this.#closing.signal);
  }

  #gainOf(peer: string): number {
    return this.#settings.volumes.get(peer) ?? 1;
  }

  async #speakNow(track: MediaStreamTrack | null): Promise<void> {
    if (this.#closed || !this.#sendTransport) return;
    if (this.#producer) {
      // Paused first: a producer that is not turns a new track on.
      if (this.#settings.muted && !this.#producer.paused) await this.#tellMuted(this.#producer);
      // A producer takes no track that has ended.
      const live = track?.readyState === 'ended' ? null : track;
      if (live !== this.#producer.track) await this.#producer.replaceTrack({ track: live });
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
    if (isSilence) return; // it is to be sent, muted or not
    // A Producer is born paused from a track that is not enabled; the gateway is told, and so is a change since.
    if (this.#settings.muted || producer.paused) await this.#tellMuted(producer);
    if (this.#settings.toldMuted) await this.applyMuted();
  }

  async #consumeNow(announced: ConsumerDescription): Promise<void> {
    const { consumer_id: id, producer_id: producerId, peer, kind } = announced;
    const unwanted = () => this.#closed || !this.#announced.has(id);
    if (unwanted() || !this.#recvTransport) return;
    try {
      const rtpParameters = announced.rtp_parameters as types.RtpParameters;
      const consumer = await this.#recvTransport.consume({ id, producerId, kind, rtpParameters });
      if (unwanted()) {
        consumer.close();
        return;
      }
      this.#announced.delete(id);
      this.#consumers.set(id, { peer, consumer });
      this.#playback.add(id, peer, consumer.track, this.#gainOf(peer));
      this.#handlers.trackChanged(peer);
      // Not awaited here: the next consumer need not wait for this one's round trip.
      this.#request({ type: 'resume_consumer', consumer_id: id }).catch((error: unknown) => {
        if (this.#consumers.has(id)) this.#handlers.fault(cannotHear(peer, error));
      });
    } catch (error) {
      if (unwanted()) return;
      this.#announced.delete(id);
      this.#handlers.fault(cannotHear(peer, error));
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
