import { errors } from 'mediasoup';
import type {
  Consumer,
  DtlsParameters,
  IceParameters,
  Producer,
  Router,
  RtpCapabilities,
  RtpParameters,
  WebRtcServer,
  WebRtcTransport,
} from 'mediasoup/types';
import { PartylineError } from '../protocol/errors.ts';
import { HeldLeg } from './held-leg.ts';
import type { Publish } from './pipe.ts';
import { type ReceivedRtp, receivedRtp } from './received-rtp.ts';

/** Environment of a leg: its router, its server, and callbacks. */
export type WebRtcLegHost = {
  router: Router;
  webRtcServer: WebRtcServer;
  /** Called with each producer of the browser before any other listener. */
  publish: Publish;
  /** Called when the leg has closed. */
  onClosed: () => void;
};

export type WebRtcLegEvents = {
  /** Called when a consumer has ended because its producer has. */
  onConsumerClosed: (consumerId: string) => void;
  /** Called when a transport was closed because the browser sent too much, or did not read. */
  onCut: () => void;
  /** Called when a transport of the browser has found or lost its media path. */
  onPathChanged: () => void;
  /** Called when the browser's end of the recv transport is connected (DTLS), so that it can receive. */
  onReceiving: () => void;
};

/** Parameters that a browser needs for its side of a transport; mediasoup-client's `TransportOptions`. */
export type TransportOptions = Pick<
  WebRtcTransport,
  'id' | 'iceParameters' | 'iceCandidates' | 'dtlsParameters'
>;

/** States of ICE in which a transport has a path. */
const PATH_STATES = new Set<WebRtcTransport['iceState']>(['connected', 'completed']);

/** One browser's side of a router: a transport to send, a transport to receive, and what runs over them. */
export class WebRtcLeg {
  readonly #host: WebRtcLegHost;
  readonly #sendTransport: WebRtcTransport;
  readonly #recvTransport: WebRtcTransport;
  readonly #events: WebRtcLegEvents;
  readonly #consumers = new Map<string, Consumer>();
  #producer: Producer | 'opening' | 'ended' | undefined;
  /** True once mediasoup has said that this browser can receive a producer. */
  #canConsume = false;
  #isPaused = false;
  #isMuted = false;
  /** Resolves when the last request to pause or resume the producer has been answered. */
  #settled = Promise.resolve();
  #held: HeldLeg | undefined;
  #closed = false;

  private constructor(
    host: WebRtcLegHost,
    sendTransport: WebRtcTransport,
    recvTransport: WebRtcTransport,
    events: WebRtcLegEvents,
  ) {
    this.#host = host;
    this.#sendTransport = sendTransport;
    this.#recvTransport = recvTransport;
    this.#events = events;
    for (const transport of [sendTransport, recvTransport]) {
      transport.on('icestatechange', () => events.onPathChanged());
      // mediasoup does not report the state of ICE that a transport takes when its media worker
      // dies.
      transport.observer.once('close', () => {
        events.onPathChanged();
        if (!this.#closed && !host.router.closed) events.onCut();
      });
    }
    recvTransport.on('dtlsstatechange', (state) => {
      if (state !== 'connected') return;
      events.onReceiving();
      this.#held?.onChange();
    });
  }

  static async open(host: WebRtcLegHost, events: WebRtcLegEvents): Promise<WebRtcLeg> {
    const { router, webRtcServer } = host;
    const options = { webRtcServer, enableUdp: true, enableTcp: true, preferUdp: true };
    const sendTransport = await router.createWebRtcTransport(options);
    try {
      const recvTransport = await router.createWebRtcTransport(options);
      return new WebRtcLeg(host, sendTransport, recvTransport, events);
    } catch (fault) {
      sendTransport.close();
      throw fault;
    }
  }

  get sendTransport(): TransportOptions {
    return this.#sendTransport;
  }

  get recvTransport(): TransportOptions {
    return this.#recvTransport;
  }

  /** True once its transports are closed, by {@link close} or because the media worker died. */
  get isLost(): boolean {
    return this.#closed || this.#sendTransport.closed;
  }

  /** True while the browser's producer is paused or muted. */
  get isSilent(): boolean {
    return this.#isPaused || this.#isMuted;
  }

  /** True while media can flow, in one direction at least: ICE has a path that the browser has lately confirmed. */
  get hasPath(): boolean {
    const transports = [this.#sendTransport, this.#recvTransport];
    return !this.#closed && transports.some(({ iceState }) => PATH_STATES.has(iceState));
  }

  /** True while the browser produces, or is about to. */
  get isProducing(): boolean {
    return !this.#closed && this.#producer !== undefined && this.#producer !== 'ended';
  }

  /** Id of the browser's producer; undefined if there is none. */
  get producerId(): string | undefined {
    return typeof this.#producer === 'object' ? this.#producer.id : undefined;
  }

  /** Returns what its producer has received; undefined if there is none, or it closes meanwhile. */
  async receivedRtp(): Promise<ReceivedRtp | undefined> {
    return typeof this.#producer === 'object' ? receivedRtp(this.#producer) : undefined;
  }

  /** True once a packet of the producer has come, while the leg is held. */
  get hasPacket(): boolean {
    return this.#held?.hasPacket ?? false;
  }

  /** True if the recv transport is connected. */
  get isReceiving(): boolean {
    return this.#recvTransport.dtlsState === 'connected';
  }

  /** True if every consumer has been resumed, and its packets arrive. */
  get hasConsumers(): boolean {
    const ids = [...this.#consumers.keys()];
    const areWanted = ids.every((id) => this.#held?.wanted.has(id) ?? true);
    return ids.length === 0 || (areWanted && this.isReceiving);
  }

  /**
   * Blocks audio in both directions until {@link release}, even if producers or consumers are resumed.
   * @param onChange called when {@link hasPacket}, {@link isReceiving} or {@link hasConsumers} may have changed
   */
  hold(onChange: () => void): void {
    this.#held = new HeldLeg(onChange);
  }

  /** @throws {PartylineError} `media_lost` */
  async release(): Promise<void> {
    const wanted = this.#held?.wanted ?? new Set();
    this.#held = undefined;
    const consumers = [...wanted].flatMap((id) => this.#consumers.get(id) ?? []);
    const producer = typeof this.#producer === 'object' ? [this.#settle(this.#producer)] : [];
    await Promise.all([...producer, ...consumers.map((consumer) => this.#resume(consumer))]);
  }

  /** @throws {PartylineError} `bad_message` for a transport that is not this leg's, or is connected already */
  async connect(transportId: string, dtlsParameters: DtlsParameters): Promise<void> {
    const transport = this.#transport(transportId);
    await this.#refused('connect_transport', transport.connect({ dtlsParameters }));
  }

  /**
   * Creates the producer of this browser, which has at most one.
   * @throws {PartylineError} `bad_message`, `media_lost`
   */
  async produce(transportId: string, rtpParameters: RtpParameters): Promise<string> {
    if (transportId !== this.#sendTransport.id) {
      throw new PartylineError('bad_message', 'produce: not the send transport.');
    }
    if (this.#producer) throw new PartylineError('bad_message', 'produce: already producing.');
    this.#producer = 'opening';
    let producer: Producer | undefined;
    try {
      producer = await this.#refused(
        'produce',
        this.#sendTransport.produce({ kind: 'audio', rtpParameters, paused: this.#isKeptBack }),
      );
      checkOpen(this.#sendTransport);
      if (this.#held) await this.#asked(this.#held.awaitPacket(producer));
      await this.#host.publish(producer);
      checkOpen(this.#sendTransport);
      this.#producer = producer;
      await this.#settle(producer);
    } catch (fault) {
      producer?.close();
      if (this.#producer === 'opening') this.#producer = undefined;
      this.discardProducer();
      throw fault;
    }
    return producer.id;
  }

  /** @throws {PartylineError} `bad_message`, `media_lost` */
  async pauseProducer(producerId: string): Promise<void> {
    const producer = this.#findProducer(producerId);
    this.#isPaused = true;
    await this.#settle(producer);
  }

  /** @throws {PartylineError} `bad_message`, `media_lost` */
  async resumeProducer(producerId: string): Promise<void> {
    const producer = this.#findProducer(producerId);
    this.#isPaused = false;
    await this.#settle(producer);
  }

  /** Mutes the present producer and later ones, whether paused or not. @throws {PartylineError} `media_lost` */
  async setMuted(isMuted: boolean): Promise<void> {
    this.#isMuted = isMuted;
    if (typeof this.#producer === 'object') await this.#settle(this.#producer);
  }

  /** Closes the producer of this browser for the rest of the leg's life. */
  closeProducer(): void {
    if (typeof this.#producer !== 'object') return;
    this.#producer.close();
    this.#producer = 'ended';
  }

  /** Closes the producer of this browser, which may produce again. Does nothing if there is none. */
  discardProducer(): void {
    if (typeof this.#producer !== 'object') return;
    this.#producer.close();
    this.#producer = undefined;
  }

  /**
   * Prepares to hear a producer; nothing is sent until {@link resumeConsumer}. Returns undefined if this
   * browser cannot receive it, or if the producer has ended.
   * @param rtpCapabilities capabilities of the browser, the same in each call
   * @throws {PartylineError} `media_lost` if the leg closes meanwhile
   */
  async consume(
    producerId: string,
    rtpCapabilities: RtpCapabilities,
  ): Promise<{ id: string; rtpParameters: RtpParameters } | undefined> {
    // All producers of a router have the same codec, and each question copies parameters.
    this.#canConsume ||= this.#host.router.canConsume({ producerId, rtpCapabilities });
    if (!this.#canConsume) return undefined;
    const options = { producerId, rtpCapabilities, paused: true };
    const consumer = await this.#recvTransport.consume(options).catch((fault: unknown) => {
      if (fault instanceof errors.NotFoundError) return undefined;
      throw fault;
    });
    if (!consumer) return undefined;
    if (this.#recvTransport.closed) {
      consumer.close();
      throw mediaLost(undefined);
    }
    this.#consumers.set(consumer.id, consumer);
    consumer.on('producerclose', () => {
      this.#consumers.delete(consumer.id);
      this.#held?.onChange();
      this.#events.onConsumerClosed(consumer.id);
    });
    return consumer;
  }

  /** @throws {PartylineError} `bad_message` for a consumer that has ended, or ends meanwhile; `media_lost` */
  async resumeConsumer(consumerId: string): Promise<void> {
    const consumer = this.#consumers.get(consumerId);
    if (!consumer) throw noSuchConsumer();
    if (this.#held) {
      this.#held.want(consumerId);
      return;
    }
    await this.#resume(consumer);
    if (consumer.closed) throw this.isLost ? mediaLost(undefined) : noSuchConsumer();
  }

  async restartIce(transportId: string): Promise<IceParameters> {
    return this.#asked(this.#transport(transportId).restartIce());
  }

  /** Closes both transports, and with them the producer and the consumers. Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#sendTransport.close();
    this.#recvTransport.close();
    this.#consumers.clear();
    this.#host.onClosed();
  }

  #transport(id: string): WebRtcTransport {
    const transport = [this.#sendTransport, this.#recvTransport].find((leg) => leg.id === id);
    if (!transport) throw new PartylineError('bad_message', 'No such transport.');
    return transport;
  }

  get #isKeptBack(): boolean {
    return this.isSilent || this.#held !== undefined;
  }

  /** Pauses or resumes the producer, one request after the other: `paused` does not show a request that has no answer yet. */
  #settle(producer: Producer): Promise<void> {
    const settle = async () => {
      if (!producer.closed && this.#isKeptBack !== producer.paused) {
        await this.#asked(this.#isKeptBack ? producer.pause() : producer.resume());
      }
    };
    // A fault of the previous request is reported to its own caller.
    this.#settled = this.#settled.then(settle, settle);
    return this.#settled;
  }

  /** Resumes a consumer, which may close meanwhile with its producer. */
  async #resume(consumer: Consumer): Promise<void> {
    try {
      await consumer.resume();
    } catch (cause) {
      if (!consumer.closed) throw this.#recvTransport.closed ? mediaLost(cause) : cause;
    }
  }

  #findProducer(id: string): Producer {
    if (typeof this.#producer !== 'object' || this.#producer.id !== id) {
      throw new PartylineError('bad_message', 'No such producer.');
    }
    return this.#producer;
  }

  /** Awaits a request of the media worker, which answers unless it dies. */
  async #asked<T>(request: Promise<T>): Promise<T> {
    try {
      return await request;
    } catch (cause) {
      throw this.#sendTransport.closed ? mediaLost(cause) : cause;
    }
  }

  /** Awaits a request with parameters of the client: a rejection is the client's fault, unless the leg has closed. */
  async #refused<T>(what: string, request: Promise<T>): Promise<T> {
    try {
      return await this.#asked(request);
    } catch (cause) {
      if (cause instanceof PartylineError) throw cause;
      const reason = cause instanceof Error ? cause.message : 'refused';
      throw new PartylineError('bad_message', `${what}: ${reason}.`, { cause });
    }
  }
}

/**
 * Checks a transport after a request: mediasoup makes a producer even if the transport was closed meanwhile, and
 * never closes it. @throws {PartylineError} `media_lost`
 */
function checkOpen(transport: WebRtcTransport): void {
  if (transport.closed) throw mediaLost(undefined);
}

/** Fault told to a browser whose media worker died or hung during its request. */
export const mediaLost = (cause: unknown) =>
  new PartylineError('media_lost', 'The media worker of the room died.', { cause });

const noSuchConsumer = () =>
  new PartylineError('bad_message', 'resume_consumer: no such consumer.');
