import type { OpusSink } from '../audio/ingest/ingest.ts';
import type { LastPackets } from '../audio/ingest/splice.ts';
import { gainOf, type Subscription, type Listener } from '../audio/mixing/subscriptions.ts';
import { Uplink } from '../bridge/uplink.ts';
import type { LeaveReason, PeerDescription, ServerMessage } from '../protocol/messages.ts';
import { replaced } from '../protocol/errors.ts';
import { SAMPLES_PER_MS } from '../rtp/clock-rate.ts';
import type { AudioStats, Peer, ClientConnection } from './peer.ts';
import type { RoomLease } from './registry.ts';
import type { RelayListener } from './relay.ts';

/** How a WebSocket peer hears its room. */
export type PeerSubscription = Subscription & {
  /** It is sent messages of unknown formats as they came, and nothing of the mixer. */
  isRelayed: boolean;
};

/** A legacy client in a room: its Opus packets go up by the uplink, what it hears comes from the mixer. */
export class WebSocketPeer implements Peer {
  readonly kind = 'websocket';
  readonly hasMediaPath = false;
  readonly hearsProducers = false;
  readonly name: string;
  readonly #lease: RoomLease;
  #outlet: ClientConnection;
  readonly #uplink: Uplink;
  #listener: Listener;
  #isRelayed: boolean;
  readonly #relayListener: RelayListener;
  #isListening = false;
  #concealedSamples = 0;
  #closed = false;

  /** Prepares a peer; it is in the room once it has been told to {@link enter}. Owns the lease from then on. */
  constructor(
    lease: RoomLease,
    outlet: ClientConnection,
    subscription: PeerSubscription,
    isMuted: boolean,
  ) {
    this.name = outlet.name;
    this.#lease = lease;
    this.#outlet = outlet;
    const { room } = lease;
    const heardThere = { mixer: room.mixer, peer: this.name };
    this.#uplink = new Uplink(
      () => room.media.router.plainLeg,
      room.route,
      heardThere,
      room.clock,
      {
        onProducer: (producerId) => room.addProducer(this, producerId),
        onFlow: (state, bufferedMs, droppedMs) => {
          const figures = { buffered_ms: bufferedMs, dropped_ms: droppedMs };
          this.#outlet.notify({ type: 'flow', state, ...figures });
        },
        onFault: (fault) => this.#outlet.fail(fault),
      },
    );
    this.#uplink.isMuted = isMuted;
    this.#listener = this.#listenerFor(subscription);
    this.#isRelayed = subscription.isRelayed;
    this.#relayListener = this.#openRelayListener();
  }

  /** The number that stands for it in the head of forwarded frames. */
  get speaker(): number {
    return this.#lease.room.speakerOf(this.name);
  }

  others(): PeerDescription[] {
    return this.#lease.room.others(this);
  }

  enter(): void {
    this.#lease.room.enter(this);
  }

  /** Gets ready to take over from another way of the same peer; resolves when the others are ready to hear it. */
  prepare(): Promise<void> {
    this.#lease.room.prepare(this);
    return this.#uplink.open();
  }

  /** Takes over from another way of the same peer, which is then to be closed. */
  takeOver(before: Peer, subscription: PeerSubscription, isMuted: boolean): void {
    this.subscribe(subscription);
    this.#uplink.isMuted = isMuted;
    this.#lease.room.change(before, this);
    this.listen();
  }

  listen(): void {
    this.#isListening = true;
    const { room } = this.#lease;
    if (!this.#isRelayed) room.mixer.addListener(this.#listener);
    room.relay.add(this.#relayListener);
    room.tellSpeakersTo(this);
  }

  /** Hears the room in another way from now on. */
  subscribe(subscription: PeerSubscription): void {
    const { mixer } = this.#lease.room;
    const before = this.#listener;
    const wasRelayed = this.#isRelayed;
    this.#listener = this.#listenerFor(subscription);
    this.#isRelayed = subscription.isRelayed;
    if (this.#closed || !this.#isListening) return;
    if (this.#isRelayed) mixer.removeListener(before);
    else if (wasRelayed) mixer.addListener(this.#listener);
    else mixer.updateListener(before, this.#listener);
  }

  get isMuted(): boolean {
    return this.#uplink.isMuted;
  }

  /** Tells the room whether the client is muted: nobody hears the packets that come from now on. */
  setMuted(isMuted: boolean): void {
    this.#uplink.isMuted = isMuted;
    this.#lease.room.mutedChanged(this);
  }

  /** Takes the Opus packets of the client into the room. */
  get sink(): OpusSink {
    return this.#uplink.send;
  }

  /** The last packets that the room has heard, or is about to hear. */
  get lastPackets(): LastPackets {
    return this.#uplink.last;
  }

  /** Sends a message of an unknown format, as it is, to those who can be sent it. */
  relay(message: Buffer): void {
    this.#lease.room.relayMessage(this.name, message);
  }

  /** How the peer's audio has fared in this room. */
  get audioStats(): AudioStats {
    const { bufferedMs, driftPpm, droppedMs } = this.#uplink;
    const concealedMs = this.#concealedSamples / SAMPLES_PER_MS;
    return { bufferedMs, driftPpm, droppedMs, concealedMs };
  }

  /** Tells the client who speaks, or that nobody does. */
  tellSpeakers(): void {
    this.#lease.room.tellSpeakersTo(this, true);
  }

  notify(message: ServerMessage): void {
    this.#outlet.notify(message);
  }

  notifyLater(text: string): boolean {
    return this.#outlet.notifyLater(text);
  }

  flush(): void {
    this.#outlet.flush();
  }

  /** Nothing to do: the mixer hears every producer for all WebSocket peers. */
  producerAdded(): void {}

  /** Listeners over WebSockets notice nothing; a browser that comes back finds a new producer. */
  mediaRestarted(): void {
    this.#uplink.reset();
  }

  suspend(outlet: ClientConnection): void {
    this.#outlet = outlet;
    this.#stopListening();
    this.#lease.room.suspend(this);
  }

  /** The client is back, on another connection; it hears the room once it is told to {@link listen}. */
  resume(outlet: ClientConnection, subscription: PeerSubscription, isMuted: boolean): void {
    this.#outlet = outlet;
    this.subscribe(subscription);
    this.#lease.room.resume(this);
    this.setMuted(isMuted);
  }

  /** Resolves when it hears all who speak, on whatever node. */
  hearsAll(): Promise<void> {
    return this.#lease.room.hearsAll();
  }

  replace(): void {
    this.#outlet.fail(replaced());
  }

  close(reason: LeaveReason): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopListening();
    this.#lease.room.leave(this, reason);
    this.#uplink.close();
    this.#lease.release();
  }

  #stopListening(): void {
    const { mixer, relay } = this.#lease.room;
    this.#isListening = false;
    mixer.removeListener(this.#listener);
    relay.remove(this.#relayListener);
  }

  #openRelayListener(): RelayListener {
    const takes = () => this.#outlet.takesRelayed;
    return {
      peer: this.name,
      get takesRelayed() {
        return takes();
      },
      hears: (peer) => gainOf(this.#listener, { peer }) > 0,
      deliver: (message) => this.#outlet.takeRelayed(message),
    };
  }

  #listenerFor({ format, delivery, volume }: PeerSubscription): Listener {
    return {
      peer: this.name,
      format,
      delivery,
      volume,
      deliver: (frame) => this.#outlet.sendAudio(frame),
      concealed: (samples) => {
        this.#concealedSamples += samples;
      },
      volumeLimited: () => this.#outlet.volumeLimited(),
    };
  }
}
