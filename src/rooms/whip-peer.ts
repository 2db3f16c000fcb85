import type { Listener } from '../audio/mixing/subscriptions.ts';
import { Playback } from '../bridge/playback.ts';
import type { WebRtcOutput } from '../media/listening-router.ts';
import type { WebRtcInput } from '../media/webrtc-input.ts';
import type { LeaveReason, ServerMessage } from '../protocol/messages.ts';
import { replaced } from '../protocol/errors.ts';
import type { Peer, ClientConnection } from './peer.ts';
import type { RoomLease } from './registry.ts';

/** How a client hears its room over WHEP. */
export type PlaybackOptions = {
  /** Name of the only peer that the client hears; undefined if it hears all. */
  from: string | undefined;
  /** It takes no packets of more than 20 ms. */
  takesShortOnly: boolean;
  /** Silence may have gaps. */
  isSparse: boolean;
};

/** A standard client in a room: what it sends comes out of the router as of a browser, what it hears comes from the mixer. */
export class WhipPeer implements Peer {
  readonly kind = 'webrtc';
  readonly hearsProducers = false;
  readonly name: string;
  readonly #lease: RoomLease;
  readonly #outlet: ClientConnection;
  #input: WebRtcInput | undefined;
  #output: WebRtcOutput | undefined;
  #playback: Playback | undefined;
  #listener: Listener | undefined;
  #isMuted = false;
  #isSuspended = false;
  #isClosed = false;

  /** Prepares a peer; it is in the room once it has been told to {@link enter}. Owns the lease from then on. */
  constructor(lease: RoomLease, outlet: ClientConnection) {
    this.name = outlet.name;
    this.#lease = lease;
    this.#outlet = outlet;
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

  /** Nothing to do: it hears from when its player is connected. */
  listen(): void {}

  /** Speaks by this from now on, and no more by what it spoke by before. Resolves when the others hear it, or it was replaced. */
  async speakBy(input: WebRtcInput): Promise<void> {
    this.stopSpeaking();
    this.#input = input;
    if (this.#isMuted) await input.setMuted(true);
    // Replaced or ended meanwhile: its producer has closed, and stopSpeaking() could not take out what was not in yet.
    if (this.#input !== input) return;
    await this.#lease.room.addBrowserProducer(this, input.producerId);
  }

  /** Mutes what it speaks by, now or later, or ends that. @throws {Error} if the media worker dies or hangs */
  async setMuted(isMuted: boolean): Promise<void> {
    this.#isMuted = isMuted;
    try {
      await this.#input?.setMuted(isMuted);
    } finally {
      this.#lease.room.mutedChanged(this);
    }
  }

  stopSpeaking(): void {
    if (!this.#input) return;
    this.#lease.room.producers.removeOf(this);
    this.#input.close();
    this.#input = undefined;
  }

  /** Hears by this from now on, and no more by what it heard by before; {@link startPlayback} has it begin. */
  hearBy(output: WebRtcOutput): void {
    this.stopHearing();
    this.#output = output;
  }

  /** Begins to send what is heard, if it is not sent already. */
  startPlayback({ from, takesShortOnly, isSparse }: PlaybackOptions): void {
    if (!this.#output || this.#playback) return;
    const { room } = this.#lease;
    const playback = new Playback(room.clock, this.#output.feed, isSparse);
    this.#playback = playback;
    this.#listener = {
      peer: this.name,
      only: from,
      takesShortOnly,
      format: { codec: 'opus' },
      delivery: 'mix',
      volume: {},
      deliver: (frame) => playback.send(frame),
      concealed: () => {},
    };
    room.mixer.addListener(this.#listener);
  }

  /** Sends nothing until {@link startPlayback}. */
  stopPlayback(): void {
    if (this.#listener) this.#lease.room.mixer.removeListener(this.#listener);
    this.#listener = undefined;
    this.#playback?.close();
    this.#playback = undefined;
  }

  stopHearing(): void {
    this.stopPlayback();
    this.#output?.close();
    this.#output = undefined;
  }

  /** Its connection is lost, or is there again; the others are not told. */
  pathChanged(isLost: boolean): void {
    if (isLost === this.#isSuspended) {
      this.#lease.room.mediaPathChanged(this);
      return;
    }
    this.#isSuspended = isLost;
    if (isLost) this.#lease.room.suspend(this);
    else this.#lease.room.resume(this);
  }

  /** A client of WHIP and WHEP is told nothing of the room. */
  notify(_message: ServerMessage): void {}

  notifyLater(): boolean {
    return false;
  }

  flush(): void {}

  producerAdded(): void {}

  /** Nothing to do: the input closed with the media worker, and the session notices that. */
  mediaRestarted(): void {}

  /** Its session stands in for it itself. */
  suspend(): void {}

  replace(): void {
    this.#outlet.fail(replaced());
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
