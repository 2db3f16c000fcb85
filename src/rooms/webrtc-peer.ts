import type { DtlsParameters, RtpCapabilities, RtpParameters } from '../protocol/media-types.ts';
import type { TransportOptions, WebRtcLeg } from '../media/webrtc-leg.ts';
import type { LeaveReason, PeerDescription, ServerMessage } from '../protocol/messages.ts';
import type {
  ConsumerDescription,
  TransportDescription,
  WebRtcDescription,
} from '../protocol/webrtc-descriptions.ts';
import { mayNotPublish, PartylineError, replaced, transportCut } from '../protocol/errors.ts';
import {
  canHearOpus,
  capabilitiesOfAudio,
  hasOpusTwice,
  withUsableCname,
} from '../protocol/webrtc-parameters.ts';
import { MutedRtp } from '../bridge/muted-rtp.ts';
import { RtpWatch } from '../bridge/rtp-watch.ts';
import type { Peer, ClientConnection, RoomProducer } from './peer.ts';
import { PendingConsumers } from './pending-consumers.ts';
import { rateEventsOf } from './rate-events.ts';
import type { RoomLease } from './registry.ts';

export type PreparedEvents = {
  /** Called when {@link WebRtcPeer.readiness} may have changed. */
  onChange: () => void;
  /** Called when its transports are closed. */
  onLost: () => void;
};

/** Progress of a browser that will take over from another way of the same peer. */
export type Readiness = {
  /** True if its producer exists or is being created. */
  isProducing: boolean;
  /** True once the first packet of its producer has come. */
  isHeard: boolean;
  /** True once its recv transport is connected. */
  isReceiving: boolean;
  /** True if it has resumed every consumer. */
  hasConsumers: boolean;
};

/** A browser in a room: one WebRTC leg on the room's router, and a consumer for each speaker. */
export class WebRtcPeer implements Peer {
  readonly kind = 'webrtc';
  readonly isMediaOnly = false;
  readonly hearsProducers = true;
  readonly name: string;
  readonly #lease: RoomLease;
  #connection: ClientConnection;
  readonly #leg: WebRtcLeg;
  readonly #routerRtpCapabilities: RtpCapabilities;
  readonly #rtpCapabilities: RtpCapabilities;
  readonly #consumers = new Map<string, ConsumerDescription>();
  /** Ids of the consumers that it has not asked to resume yet. */
  readonly #offers = new Set<string>();
  readonly #pending = new PendingConsumers<RoomProducer>((producer) =>
    this.#lease.room.doLater(() => this.#tryToConsume(producer)),
  );
  /** True once its transports are closed, and the client must join again. */
  #isRestarted = false;
  #prepared: PreparedEvents | undefined;
  #hasProduced = false;
  readonly #rtpWatch = new RtpWatch();
  readonly #rateEvents = rateEventsOf(() => this.#connection);
  readonly #mutedRtp: MutedRtp;
  #mayPublish = true;
  #closed = false;

  private constructor(
    lease: RoomLease,
    connection: ClientConnection,
    leg: WebRtcLeg,
    routerRtpCapabilities: RtpCapabilities,
    rtpCapabilities = routerRtpCapabilities,
  ) {
    this.name = connection.name;
    this.#lease = lease;
    this.#connection = connection;
    this.#leg = leg;
    const budget = () => lease.room.producers.budgetOf(this);
    this.#mutedRtp = new MutedRtp(() => this.#connection.log, this.#rateEvents, budget);
    this.#routerRtpCapabilities = routerRtpCapabilities;
    this.#rtpCapabilities = capabilitiesOfAudio(rtpCapabilities);
  }

  /**
   * Prepares a peer, which is in the room after {@link enter}. Owns the lease from now on.
   * @param rtpCapabilities capabilities of the browser; by default those of the router, because every browser supports Opus
   * @param isMuted true if its producer is muted until {@link setMuted}
   * @throws {PartylineError} `bad_message`, `media_lost`
   */
  static async open(
    lease: RoomLease,
    connection: ClientConnection,
    rtpCapabilities: RtpCapabilities | undefined,
    isMuted: boolean,
  ): Promise<WebRtcPeer> {
    if (rtpCapabilities && !canHearOpus(rtpCapabilities)) {
      const fault = 'join: rtp_capabilities has no audio/opus of 48000 Hz and 2 channels.';
      throw new PartylineError('bad_message', fault);
    }
    const { leg, router } = await lease.room.media.openWebRtcLeg({
      onConsumerClosed: (consumerId) => peer.#consumerClosed(consumerId),
      onCut: () => peer.#connection.fail(transportCut()),
      onPathChanged: () => lease.room.mediaPathChanged(peer),
      onReceiving: () => peer.#pending.connected(),
    });
    const { rtpCapabilities: ofRouter } = router;
    const peer: WebRtcPeer = new WebRtcPeer(lease, connection, leg, ofRouter, rtpCapabilities);
    await leg.setMuted(isMuted);
    return peer;
  }

  describe(): WebRtcDescription {
    const servers = this.#describeServers();
    return {
      router_rtp_capabilities: this.#routerRtpCapabilities,
      send_transport: { ...describeTransport(this.#leg.sendTransport), ...servers },
      recv_transport: { ...describeTransport(this.#leg.recvTransport), ...servers },
    };
  }

  /** Speaker number, in the header of forwarded frames. */
  get speaker(): number {
    return this.#lease.room.speakerOf(this.name);
  }

  get isMuted(): boolean {
    return this.#leg.isSilent;
  }

  get hasMediaPath(): boolean {
    return this.#leg.hasPath;
  }

  /** Consumers that it has or is about to have. */
  consumers(): ConsumerDescription[] {
    const { room } = this.#lease;
    return [...this.#consumers.values()].filter(({ producer_id: id }) => room.producers.has(id));
  }

  others(): PeerDescription[] {
    return this.#lease.room.others(this);
  }

  enter(): void {
    this.#lease.room.enter(this);
  }

  listen(): void {
    this.#lease.room.producers.announceTo(this);
    this.#lease.room.tellSpeakersTo(this);
    // The media worker may have died before the peer was in the room, which tells only peers that
    // are.
    if (this.#leg.isLost) this.mediaRestarted();
  }

  /** Prepares to take over from another way of the same peer; until then it carries no audio in either direction. */
  prepare(events: PreparedEvents): void {
    this.#prepared = events;
    this.#leg.hold(events.onChange);
    this.#lease.room.prepare(this);
  }

  get readiness(): Readiness {
    return {
      isProducing: this.isProducing,
      isHeard: this.#hasProduced && this.#leg.hasPacket,
      isReceiving: this.#leg.isReceiving,
      hasConsumers: this.#leg.hasConsumers,
    };
  }

  get isProducing(): boolean {
    return this.#leg.isProducing;
  }

  /** Takes over from another way of the same peer, which the caller then closes. */
  takeOver(before: Peer): void {
    this.#prepared = undefined;
    this.#lease.room.change(before, this);
    this.#leg.release().catch((fault: unknown) => {
      // Requests of a leg or media worker that has ended are rejected: the client learns of that
      // from its room.
      const isGone =
        this.#closed || (fault instanceof PartylineError && fault.code === 'media_lost');
      if (!isGone) this.#connection.fail(fault);
    });
  }

  /** Sends the client `rtp_flow` if its packets have stopped or resumed, and ends one that is muted and sends too many. To be called at intervals. */
  watchRtp(nowMs: number): void {
    const id = this.#leg.producerId;
    const lastAtMs = id === undefined ? undefined : this.#lease.room.lastPacketAtMs(id);
    const isExpected = id !== undefined && !this.isMuted && !this.#isRestarted;
    const state = this.#rtpWatch.look(nowMs, lastAtMs, isExpected);
    if (state) this.#connection.notify({ type: 'rtp_flow', state });
    const hasProducer = id !== undefined && !this.#isRestarted;
    const count = hasProducer ? () => this.#leg.receivedRtp() : undefined;
    void this.#mutedRtp.look(nowMs, this.isMuted, count);
  }

  connect(transportId: string, dtlsParameters: DtlsParameters): Promise<void> {
    return this.#leg.connect(transportId, dtlsParameters);
  }

  /** @throws {PartylineError} `bad_message`, `forbidden`, `media_lost` */
  async produce(transportId: string, rtpParameters: RtpParameters): Promise<string> {
    if (hasOpusTwice(rtpParameters)) {
      const fault = 'produce: rtp_parameters has more than one audio/opus.';
      throw new PartylineError('bad_message', fault);
    }
    const producerId = await this.#leg.produce(transportId, withUsableCname(rtpParameters));
    if (this.#mayPublish) {
      await this.#addProducer(producerId);
    }
    if (!this.#mayPublish) {
      this.stopPublishing();
      throw mayNotPublish();
    }
    this.#hasProduced = true;
    this.#prepared?.onChange();
    return producerId;
  }

  /** Connects its producer to the room. If that fails, the producer is closed, and the client may produce again. */
  async #addProducer(producerId: string): Promise<void> {
    const { room } = this.#lease;
    try {
      await room.addBrowserProducer(this, producerId, this.#rateEvents);
    } catch (fault) {
      room.producers.removeOf(this);
      this.#leg.discardProducer();
      throw fault;
    }
  }

  /**
   * Closes its producer permanently, because the client has come back with a token that does not allow publishing.
   * @returns true if there was a producer
   */
  stopPublishing(): boolean {
    this.#mayPublish = false;
    this.#leg.closeProducer();
    return this.#lease.room.producers.removeOf(this);
  }

  /** Mutes or unmutes its present and later producers, independently of the browser's own pause. */
  async setMuted(isMuted: boolean): Promise<void> {
    await this.#leg.setMuted(isMuted);
    this.#lease.room.mutedChanged(this);
  }

  async pauseProducer(producerId: string): Promise<void> {
    await this.#leg.pauseProducer(producerId);
    this.#lease.room.mutedChanged(this);
  }

  async resumeProducer(producerId: string): Promise<void> {
    await this.#leg.resumeProducer(producerId);
    this.#lease.room.mutedChanged(this);
  }

  /** Returns true the first time that it is called for a consumer. */
  takeOffer(consumerId: string): boolean {
    return this.#offers.delete(consumerId);
  }

  resumeConsumer(consumerId: string): Promise<void> {
    return this.#leg.resumeConsumer(consumerId);
  }

  /** Restarts ICE of a transport. The credentials of its TURN servers are valid for a day from now. */
  async restartIce(
    transportId: string,
  ): Promise<Pick<TransportDescription, 'ice_parameters' | 'ice_servers'>> {
    const iceParameters = await this.#leg.restartIce(transportId);
    return { ice_parameters: iceParameters, ...this.#describeServers() };
  }

  /** Sends the client the active speakers, which may be none. */
  tellSpeakers(): void {
    this.#lease.room.tellSpeakersTo(this, true);
  }

  notify(message: ServerMessage): void {
    this.#connection.notify(message);
  }

  notifyLater(text: string): boolean {
    return this.#connection.notifyLater(text);
  }

  flush(): void {
    this.#connection.flush();
  }

  producerAdded(producer: RoomProducer): void {
    this.#pending.add(producer);
  }

  producerRemoved(id: string): void {
    this.#pending.delete(id);
  }

  /** Asks the client to join again for new transports, once. */
  mediaRestarted(): void {
    if (this.#isRestarted) return;
    this.#isRestarted = true;
    this.#leg.close();
    this.#consumers.clear();
    this.#offers.clear();
    this.#pending.clear();
    if (this.#prepared) this.#prepared.onLost();
    else this.#connection.notify({ type: 'media_restarted' });
  }

  /** Keeps its media, which does not depend on the connection. */
  suspend(connection: ClientConnection): void {
    this.#connection = connection;
    this.#lease.room.suspend(this);
  }

  /**
   * Attaches another connection of the client, which still has its transports; it gets events of the room
   * after {@link listenAgain}.
   */
  resume(connection: ClientConnection): void {
    this.#connection = connection;
    this.#rtpWatch.tellAgain();
    this.#lease.room.resume(this);
  }

  /** Resolves when it hears all speakers on all nodes. */
  whenAllHeard(): Promise<void> {
    return this.#lease.room.whenAllHeard();
  }

  /** Tells what the client must know beside {@link consumers}. */
  listenAgain(): void {
    if (this.#isRestarted) this.#connection.notify({ type: 'media_restarted' });
    this.#lease.room.tellSpeakersTo(this);
  }

  replace(): void {
    this.#connection.fail(replaced());
  }

  close(reason: LeaveReason): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#lease.room.leave(this, reason);
    this.#leg.close();
    this.#lease.release();
  }

  async #tryToConsume(producer: RoomProducer): Promise<void> {
    const isWanted = () => !this.#closed && this.#lease.room.producers.has(producer.id);
    try {
      if (isWanted() && (await this.#consume(producer))) return;
    } catch (fault) {
      // Requests of a leg or producer that has closed meanwhile are rejected.
      if (isWanted()) this.#connection.fail(fault);
    }
    if (!this.#closed) this.#pending.ended();
  }

  /** @returns false if this browser cannot receive it */
  async #consume({ id, peer }: RoomProducer): Promise<boolean> {
    const consumer = await this.#leg.consume(id, this.#rtpCapabilities);
    if (!consumer || this.#closed) return false;
    const description: ConsumerDescription = {
      consumer_id: consumer.id,
      producer_id: id,
      peer,
      kind: 'audio',
      rtp_parameters: consumer.rtpParameters,
    };
    this.#consumers.set(consumer.id, description);
    this.#offers.add(consumer.id);
    this.#connection.notify({ type: 'new_consumer', ...description });
    return true;
  }

  #describeServers(): Pick<TransportDescription, 'ice_servers'> {
    const servers = this.#lease.room.iceServers.for(this.name);
    return servers.length > 0 ? { ice_servers: servers } : {};
  }

  #consumerClosed(consumerId: string): void {
    this.#consumers.delete(consumerId);
    this.#offers.delete(consumerId);
    this.#connection.notify({ type: 'consumer_closed', consumer_id: consumerId });
    this.#pending.ended();
  }
}

function describeTransport(transport: TransportOptions): TransportDescription {
  return {
    id: transport.id,
    ice_parameters: transport.iceParameters,
    ice_candidates: transport.iceCandidates,
    dtls_parameters: transport.dtlsParameters,
  };
}
