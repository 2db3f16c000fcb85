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

/** Settings with which a WebSocket peer hears its room. */
export type PeerSubscription = Subscription & {
  /** True if it is sent messages of unknown formats unchanged, and nothing from the mixer. */
  isRelayed: boolean;
};

/** A legacy client in a room: its Opus packets go to the uplink, and its frames come from the mixer. */
export class WebSocketPeer implements Peer {
  readonly kind = 'websocket';
  readonly hasMediaPath = false;
  readonly isMediaOnly = false;
  readonly hearsProducers = false;
  readonly name: string;
  readonly #lease: RoomLease;
  #connection: ClientConnection;
  readonly #uplink: Uplink;
  #listener: Listener;
  #isRelayed: boolean;
  readonly #relayListener: RelayListener;
  #isListening = false;
  #concealedSamples = 0;
  /** Duration of audio that was dropped before the uplink, ms. */
  #droppedBeforeMs = 0;
  #closed = false;

  /** Prepares a peer, which is in the room after {@link enter}. Owns the lease from now on. */
  constructor(
    lease: RoomLease,
    connection: ClientConnection,
    subscription: PeerSubscription,
    isMuted: boolean,
  ) {
    this.name = connection.name;
    this.#lease = lease;
    this.#connection = connection;
    const { room } = lease;
    const heardThere = { mixer: room.mixer, peer: this.name };
    this.#uplink = new Uplink(
      () => room.media.router.plainLeg,
      room.route,
      heardThere,
      room.clock,
      room.uplinkTimings,
      {
        onProducer: (producerId) => room.addProducer(this, producerId),
        onFlow: (state, bufferedMs, droppedMs) => {
          const allDroppedMs = Math.round(this.#droppedBeforeMs) + droppedMs;
          const figures = { buffered_ms: bufferedMs, dropped_ms: allDroppedMs };
          this.#connection.notify({ type: 'flow', state, ...figures });
        },
        onFault: (fault) => this.#connection.fail(fault),
      },
    );
    this.#uplink.setMuted(isMuted);
    this.#listener = this.#listenerFor(subscription);
    this.#isRelayed = subscription.isRelayed;
    this.#relayListener = this.#openRelayListener();
  }

  /** Speaker number, in the header of forwarded frames. */
  get speaker(): number {
    return this.#lease.room.speakerOf(this.name);
  }

  others(): PeerDescription[] {
    return this.#lease.room.others(this);
  }

  enter(): void {
    this.#lease.room.enter(this);
  }

  /** Prepares to take over from another way of the same peer; resolves when the others are ready to hear it. */
  prepare(): Promise<void> {
    this.#lease.room.prepare(this);
    return this.#uplink.open();
  }

  /** Takes over from another way of the same peer, which the caller then closes. */
  takeOver(before: Peer, subscription: PeerSubscription, isMuted: boolean): void {
    this.subscribe(subscription);
    this.#uplink.setMuted(isMuted);
    this.#lease.room.change(before, this);
    this.listen();
  }

  listen(): void {
    this.#isListening = true;
    const { room } = this.#lease;
    if (!this.#isRelayed) room.mixer.addListener(this.#listener);
    room.relay.add(this.#relayListener);
    room.tellSpeakersTo(this);
    this.#uplink.tellFlow();
  }

  /** Changes the settings with which it hears the room. */
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

  /** Handles that sound from the room was not sent to the client: its decoder does not know the streams any more. */
  soundMissed(): void {
    const before = this.#listener;
    const isHearing = this.#isListening && !this.#isRelayed && !this.#closed;
    if (!isHearing || before.format.codec !== 'opus') return;
    this.#listener = { ...before };
    this.#lease.room.mixer.updateListener(before, this.#listener, true);
  }

  get isMuted(): boolean {
    return this.#uplink.isMuted;
  }

  /** Mutes or unmutes what arrived at `sinceMs` or later; without it, all that is handed on from now on, whenever it arrived. */
  setMuted(isMuted: boolean, sinceMs?: number): void {
    this.#uplink.setMuted(isMuted, sinceMs);
    this.#lease.room.mutedChanged(this);
  }

  /** Takes the Opus packets of the client into the room. */
  get sink(): OpusSink {
    return this.#uplink.send;
  }

  /** Last packets that were sent to the room. */
  get lastPackets(): LastPackets {
    return this.#uplink.last;
  }

  /** Relays a message of an unknown format, unchanged, to the listeners that accept it, unless the peer was muted when it arrived. */
  relay(message: Buffer, atMs: number): void {
    if (!this.#uplink.isMutedAt(atMs)) this.#lease.room.relayMessage(this.name, message);
  }

  /** Notes audio that came too fast, and was dropped before it became packets. */
  noteDropped(durationMs: number): void {
    this.#droppedBeforeMs += durationMs;
  }

  /** Audio statistics of the peer in this room. */
  get audioStats(): AudioStats {
    const { bufferedMs, driftPpm } = this.#uplink;
    const droppedMs = this.#uplink.droppedMs + this.#droppedBeforeMs;
    const concealedMs = this.#concealedSamples / SAMPLES_PER_MS;
    return { bufferedMs, driftPpm, droppedMs, concealedMs };
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

  /** Does nothing: the mixer hears every producer for all WebSocket peers. */
  producerAdded(): void {}

  producerRemoved(): void {}

  /** Reopens the uplink: WebSocket listeners notice nothing, and a browser that joins again finds a new producer. */
  mediaRestarted(): void {
    this.#uplink.reset();
  }

  suspend(connection: ClientConnection): void {
    this.#connection = connection;
    this.#stopListening();
    this.#lease.room.suspend(this);
  }

  /** Attaches another connection of the client, which hears the room after {@link listen}. */
  resume(connection: ClientConnection, subscription: PeerSubscription, isMuted: boolean): void {
    this.#connection = connection;
    this.subscribe(subscription);
    this.#lease.room.resume(this);
    this.setMuted(isMuted);
  }

  /** Resolves when the peer hears all speakers on all nodes. */
  whenAllHeard(): Promise<void> {
    return this.#lease.room.whenAllHeard();
  }

  replace(): void {
    this.#connection.fail(replaced());
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
    const takes = () => this.#connection.takesRelayed;
    return {
      peer: this.name,
      get takesRelayed() {
        return takes();
      },
      hears: (peer) => gainOf(this.#listener, { peer }) > 0,
      deliver: (message) => this.#connection.takeRelayed(message),
    };
  }

  #listenerFor({ format, delivery, volume }: PeerSubscription): Listener {
    return {
      peer: this.name,
      format,
      delivery,
      volume,
      deliver: (frame) => this.#connection.sendAudio(frame),
      concealed: (samples) => {
        this.#concealedSamples += samples;
      },
      volumeLimited: () => this.#connection.volumeLimited(),
    };
  }
}
