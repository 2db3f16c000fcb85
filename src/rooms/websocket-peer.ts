import type { Hearing, Listener } from '../audio/mixing/hearing.ts';
import { Uplink } from '../bridge/uplink.ts';
import type { LeaveReason, PeerDescription, ServerMessage } from '../protocol/messages.ts';
import { replaced } from '../protocol/errors.ts';
import { SAMPLES_PER_MS } from '../rtp/clock-rate.ts';
import type { AudioFortunes, Peer, PeerOutlet } from './peer.ts';
import type { RoomLease } from './registry.ts';

/** A legacy client in a room: its Opus packets go up by the uplink, what it hears comes from the mixer. */
export class WebSocketPeer implements Peer {
  readonly kind = 'websocket';
  readonly hasMediaPath = false;
  readonly name: string;
  readonly #lease: RoomLease;
  #outlet: PeerOutlet;
  readonly #uplink: Uplink;
  #listener: Listener;
  #isListening = false;
  #isMuted: boolean;
  #concealedSamples = 0;
  #closed = false;

  /** Prepares a peer; it is in the room once it has been told to {@link enter}. Owns the lease from then on. */
  constructor(lease: RoomLease, outlet: PeerOutlet, hearing: Hearing, isMuted: boolean) {
    this.name = outlet.name;
    this.#lease = lease;
    this.#outlet = outlet;
    this.#isMuted = isMuted;
    const { room } = lease;
    this.#uplink = new Uplink(() => room.router.plainLeg, room.clock, {
      onPacket: (packet) => room.mixer.receive(this.name, packet, performance.now()),
      isRouted: () => room.isRouted,
      onProducer: (producerId) => room.addProducer(this, producerId),
      onFlow: (state, bufferedMs) =>
        this.#outlet.notify({ type: 'flow', state, buffered_ms: bufferedMs }),
      onFault: (fault) => this.#outlet.fail(fault),
    });
    this.#listener = this.#listenerFor(hearing);
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

  listen(): void {
    this.#isListening = true;
    this.#lease.room.mixer.addListener(this.#listener);
    this.#lease.room.tellSpeakersTo(this);
  }

  /** Hears the room in another way from now on. */
  hear(hearing: Hearing): void {
    const { mixer } = this.#lease.room;
    const before = this.#listener;
    this.#listener = this.#listenerFor(hearing);
    if (this.#closed || !this.#isListening) return;
    mixer.replaceListener(before, this.#listener);
  }

  get isMuted(): boolean {
    return this.#isMuted;
  }

  /** Tells the room whether the client is muted; that nothing is said then is the client's audio to see to. */
  setMuted(isMuted: boolean): void {
    this.#isMuted = isMuted;
    this.#lease.room.mutedChanged(this);
  }

  /** Says one Opus packet, that came at `atMs`. */
  say(packet: Buffer, durationSamples: number, audioLevel: number, atMs: number): void {
    this.#uplink.send(packet, durationSamples, audioLevel, atMs);
  }

  /** How the peer's audio has fared in this room. */
  get fortunes(): AudioFortunes {
    const { bufferedMs, driftPpm, droppedMs } = this.#uplink;
    const concealedMs = this.#concealedSamples / SAMPLES_PER_MS;
    return { bufferedMs, driftPpm, droppedMs, concealedMs };
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

  /** Who listens over a WebSocket notices nothing; a browser that comes back finds a new producer. */
  mediaRestarted(): void {
    this.#uplink.reset();
  }

  suspend(outlet: PeerOutlet): void {
    this.#outlet = outlet;
    this.#isListening = false;
    this.#lease.room.mixer.removeListener(this.#listener);
    this.#lease.room.suspend(this);
  }

  /** The client is back, on another connection; it hears the room once it is told to {@link listen}. */
  resume(outlet: PeerOutlet, hearing: Hearing, isMuted: boolean): void {
    this.#outlet = outlet;
    this.hear(hearing);
    this.#lease.room.resume(this);
    this.setMuted(isMuted);
  }

  /** Resolves when it hears all who speak, on whatever node. */
  hearsAll(): Promise<void> {
    return this.#lease.room.hearsAll();
  }

  displaced(): void {
    this.#outlet.fail(replaced());
  }

  close(reason: LeaveReason): void {
    if (this.#closed) return;
    this.#closed = true;
    const { room } = this.#lease;
    room.mixer.removeListener(this.#listener);
    room.leave(this, reason);
    this.#uplink.close();
    this.#lease.release();
  }

  #listenerFor(hearing: Hearing): Listener {
    return {
      peer: this.name,
      ...hearing,
      deliver: (frame) => this.#outlet.sendAudio(frame),
      concealed: (samples) => {
        this.#concealedSamples += samples;
      },
      volumeLimited: () => this.#outlet.volumeLimited(),
    };
  }
}
