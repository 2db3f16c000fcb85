import type { AudioFormat, Delivery } from '../audio/format.ts';
import { createIngest, type Ingest } from '../audio/ingest.ts';
import type { Listener } from '../audio/mixer.ts';
import type { Codecs } from '../audio/codecs.ts';
import { Uplink } from '../bridge/uplink.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { LeaveReason, PeerDescription, ServerMessage } from '../protocol/messages.ts';
import type { Peer, PeerOutlet } from './peer.ts';
import type { RoomLease } from './registry.ts';

/** The formats of a peer's binary frames, and how it hears the room. */
export type AudioPreferences = { in: AudioFormat; out: AudioFormat; delivery: Delivery };

/** A legacy client in a room: its binary frames go up by the ingest and the uplink, what it hears comes from the mixer. */
export class WebSocketPeer implements Peer {
  readonly kind = 'websocket';
  readonly name: string;
  readonly speaker: number;
  readonly #lease: RoomLease;
  readonly #outlet: PeerOutlet;
  readonly #uplink: Uplink;
  readonly #ingest: Ingest;
  readonly #listener: Listener;
  #closed = false;

  private constructor(
    lease: RoomLease,
    outlet: PeerOutlet,
    audio: AudioPreferences,
    way: { uplink: Uplink; ingest: Ingest },
  ) {
    this.name = outlet.name;
    this.speaker = lease.room.takeSpeakerNumber();
    this.#lease = lease;
    this.#outlet = outlet;
    this.#uplink = way.uplink;
    this.#ingest = way.ingest;
    this.#listener = {
      peer: outlet.name,
      format: audio.out,
      delivery: audio.delivery,
      deliver: (frame) => outlet.sendAudio(frame),
    };
  }

  /** Prepares a peer; it is in the room once it has been told to {@link enter}. Owns the lease from then on. */
  static async open(
    lease: RoomLease,
    outlet: PeerOutlet,
    audio: AudioPreferences,
    codecs: Codecs,
  ): Promise<WebSocketPeer> {
    const uplink = new Uplink(lease.room.router.plainLeg, {
      onProducer: (producerId) => lease.room.addProducer(peer, producerId),
      onFault: (fault) => outlet.fail(fault),
    });
    const ingest = await createIngest(audio.in, codecs, uplink.send.bind(uplink));
    const peer = new WebSocketPeer(lease, outlet, audio, { uplink, ingest });
    return peer;
  }

  others(): PeerDescription[] {
    return this.#lease.room.others(this);
  }

  enter(): void {
    this.#lease.room.enter(this);
  }

  listen(): void {
    this.#lease.room.mixer.addListener(this.#listener);
    this.#lease.room.tellSpeakersTo(this);
  }

  /**
   * Takes one binary frame.
   * @throws {PartylineError} `unsupported_audio`
   */
  receiveAudio(frame: Buffer): void {
    this.#ingest.push(frame);
  }

  notify(message: ServerMessage): void {
    this.#outlet.notify(message);
  }

  /** Nothing to do: the mixer hears every producer for all WebSocket peers. */
  producerAdded(): void {}

  roomLost(): void {
    this.#outlet.fail(new PartylineError('media_lost', 'The media worker of the room died.'));
  }

  close(reason: LeaveReason): void {
    if (this.#closed) return;
    this.#closed = true;
    const { room } = this.#lease;
    room.mixer.removeListener(this.#listener);
    room.leave(this, reason);
    this.#ingest.close();
    this.#uplink.close();
    this.#lease.release();
  }
}
