import type { Listener } from '../audio/mixing/subscriptions.ts';
import { MutedRtp } from '../bridge/muted-rtp.ts';
import { WhepStream } from '../bridge/whep-stream.ts';
import type { WebRtcOutput } from '../media/listening-router.ts';
import type { WebRtcInput } from '../media/webrtc-input.ts';
import type { LeaveReason, ServerMessage } from '../protocol/messages.ts';
import { replaced } from '../protocol/errors.ts';
import type { Peer, ClientConnection } from './peer.ts';
import { rateEventsOf } from './rate-events.ts';
import type { RoomLease } from './registry.ts';

/** Settings with which a client hears its room over WHEP. */
export type WhepStreamOptions = {
  /** Name of the only peer that the client hears; undefined if it hears all. */
  from: string | undefined;
  /** True if it accepts no packets longer than 20 ms. */
  takesShortOnly: boolean;
  /** True if silence may have gaps (discontinuous transmission). */
  isSparse: boolean;
};

/** A WHIP or WHEP client in a room: its audio comes from the router, as a browser's does, and its stream comes from the mixer. */
export class WhipPeer implements Peer {
  readonly kind = 'webrtc';
  readonly isMediaOnly = true;
  readonly hearsProducers = false;
  readonly name: string;
  readonly #lease: RoomLease;
  readonly #connection: ClientConnection;
  readonly #rateEvents = rateEventsOf(() => this.#connection);
  readonly #mutedRtp: MutedRtp;
  #input: WebRtcInput | undefined;
  #output: WebRtcOutput | undefined;
  #stream: WhepStream | undefined;
  #listener: Listener | undefined;
  #isMuted = false;
  #isSuspended = false;
  #isClosed = false;

  /** Prepares a peer, which is in the room after {@link enter}. Owns the lease from now on. */
  constructor(lease: RoomLease, connection: ClientConnection) {
    this.name = connection.name;
    this.#lease = lease;
    this.#connection = connection;
    const budget = () => lease.room.producers.budgetOf(this);
    this.#mutedRtp = new MutedRtp(() => connection.log, this.#rateEvents, budget);
  }

  get isMuted(): boolean {
    return this.#isMuted;
  }

  get hasMediaPath(): boolean {
    return [this.#input, this.#output].some((half) => half?.path.state === 'open');
  }

  enter(): void {
    this.#lease.room.enter(this);
  }

  /** Does nothing: it hears the room once its player is connected. */
  listen(): void {}

  /** Replaces its input. Resolves when the others hear it, or it was replaced again. */
  async speakBy(input: WebRtcInput): Promise<void> {
    this.stopSpeaking();
    this.#input = input;
    if (this.#isMuted) await input.setMuted(true);
    // Replaced or ended meanwhile: its producer has closed, and stopSpeaking() could not remove it
    // before it was added.
    if (this.#input !== input) return;
    await this.#lease.room.addBrowserProducer(this, input.producerId, this.#rateEvents);
  }

  /** Mutes or unmutes its present and later input. @throws {Error} if the media worker dies or hangs */
  async setMuted(isMuted: boolean): Promise<void> {
    this.#isMuted = isMuted;
    try {
      await this.#input?.setMuted(isMuted);
    } finally {
      this.#lease.room.mutedChanged(this);
    }
  }

  /** Ends the client if it is muted and sends too many packets. To be called at intervals. */
  watchRtp(nowMs: number): void {
    const input = this.#input;
    const count = input && (() => input.receivedRtp());
    void this.#mutedRtp.look(nowMs, this.#isMuted, count);
  }

  stopSpeaking(): void {
    if (!this.#input) return;
    this.#lease.room.producers.removeOf(this);
    this.#input.close();
    this.#input = undefined;
  }

  /** Replaces its output. Nothing is sent to it before {@link startStream}. */
  hearBy(output: WebRtcOutput): void {
    this.stopHearing();
    this.#output = output;
  }

  /** Starts the stream, if it has not started. */
  startStream({ from, takesShortOnly, isSparse }: WhepStreamOptions): void {
    if (!this.#output || this.#stream) return;
    const { room } = this.#lease;
    const stream = new WhepStream(room.clock, this.#output.feed, isSparse);
    this.#stream = stream;
    this.#listener = {
      peer: this.name,
      only: from,
      takesShortOnly,
      format: { codec: 'opus' },
      delivery: 'mix',
      volume: {},
      deliver: (frame) => stream.send(frame),
      concealed: () => {},
    };
    room.mixer.addListener(this.#listener);
  }

  /** Sends nothing until {@link startStream}. */
  stopStream(): void {
    if (this.#listener) this.#lease.room.mixer.removeListener(this.#listener);
    this.#listener = undefined;
    this.#stream?.close();
    this.#stream = undefined;
  }

  stopHearing(): void {
    this.stopStream();
    this.#output?.close();
    this.#output = undefined;
  }

  /** Suspends or resumes the peer, without an announcement. */
  pathChanged(isLost: boolean): void {
    if (isLost === this.#isSuspended) {
      this.#lease.room.mediaPathChanged(this);
      return;
    }
    this.#isSuspended = isLost;
    if (isLost) this.#lease.room.suspend(this);
    else this.#lease.room.resume(this);
  }

  /** Does nothing: clients of WHIP and WHEP get no events. */
  notify(_message: ServerMessage): void {}

  notifyLater(): boolean {
    return false;
  }

  flush(): void {}

  producerAdded(): void {}

  producerRemoved(): void {}

  /** Does nothing: the input closed with the media worker, which the session notices. */
  mediaRestarted(): void {}

  /** Does nothing: its session stands in for the client. */
  suspend(): void {}

  replace(): void {
    this.#connection.fail(replaced());
  }

  close(reason: LeaveReason): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.stopHearing();
    this.#lease.room.leave(this, reason);
    this.#input?.close();
    this.#lease.release();
  }
}
