import type { FastifyBaseLogger } from 'fastify';
import type { Account } from '../accounts/accounts.ts';
import { accountFault, type Credentials, type KeyState } from '../accounts/authenticator.ts';
import { PartylineError, replaced, transportCut } from '../protocol/errors.ts';
import type { LeaveReason } from '../protocol/messages.ts';
import type { ClientConnection } from '../rooms/peer.ts';
import type { WebRtcOutput } from '../media/listening-router.ts';
import type { WebRtcInput } from '../media/webrtc-input.ts';
import type { RoomLease } from '../rooms/registry.ts';
import type { Room } from '../rooms/room.ts';
import { type WhepStreamOptions, WhipPeer } from '../rooms/whip-peer.ts';
import type { AudioSettings } from '../session/audio-settings.ts';
import type { LiveSession } from '../admission/sessions.ts';
import { minutesExhausted } from '../usage/quota.ts';
import type { Half, HalfTimeouts } from './half.ts';
import type { WhipKind } from './offer.ts';

/** Audio settings of clients of WHIP and WHEP, which cannot set any. */
const NOTHING_SET: AudioSettings = {
  in: { codec: 'opus' },
  detected: undefined,
  out: { codec: 'opus' },
  delivery: 'mix',
  volume: {},
  isMuted: false,
};

export type WhipSessionParts = {
  id: string;
  connectionId: string;
  /** Position in the order of admission: higher than that of every earlier connection of the account. */
  order: number;
  credentials: Credentials;
  peer: string;
  room: string;
  timeouts: HalfTimeouts;
  log: FastifyBaseLogger;
  onHalf: (half: Half) => void;
  onHalfEnded: (half: Half) => void;
  /** Called once, when both halves have ended. */
  onClosed: (reason: LeaveReason) => void;
};

/** A peer that speaks over WHIP, hears over WHEP, or both. It counts as one connection of its account. */
export class WhipSession implements ClientConnection, LiveSession {
  readonly name: string;
  readonly log: FastifyBaseLogger;
  readonly room: string;
  readonly id: string;
  readonly connectionId: string;
  readonly order: number;
  readonly settings = NOTHING_SET;
  readonly takesRelayed = false;
  readonly #parts: WhipSessionParts;
  readonly #halves = new Map<WhipKind, Half>();
  readonly #lease: RoomLease;
  readonly #peer: WhipPeer;
  #account: Account;
  #streamOptions: WhepStreamOptions | undefined;
  #replacing: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Fault that ended the session, after which its client may not continue in another one; undefined if its client or its media ended it. */
  endFault: PartylineError | undefined;

  /** @param lease lease of the room, which the session releases */
  constructor(lease: RoomLease, parts: WhipSessionParts) {
    this.#lease = lease;
    this.#parts = parts;
    this.#account = parts.credentials.account;
    this.name = parts.peer;
    this.log = parts.log;
    this.room = parts.room;
    this.id = parts.id;
    this.connectionId = parts.connectionId;
    this.order = parts.order;
    this.#peer = new WhipPeer(lease, this);
  }

  get account(): Account {
    return this.#account;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The room in which its media is opened. */
  get mediaRoom(): Room {
    return this.#lease.room;
  }

  /** Enters the room. */
  start(): void {
    this.#peer.enter();
    this.log.info('whip session started');
  }

  /** Sends the audio of this half to the room. Resolves when the others hear it. @throws {Error} if the media worker dies meanwhile */
  async speakBy(half: Half, input: WebRtcInput): Promise<void> {
    const heard = this.#peer.speakBy(input);
    this.#add(half);
    try {
      await heard;
    } catch (fault) {
      this.endHalf(half, 'media_lost');
      throw fault;
    }
  }

  /** Sends the audio of the room over this half. */
  hearBy(half: Half, output: WebRtcOutput, options: WhepStreamOptions): void {
    this.#peer.hearBy(output);
    this.#streamOptions = options;
    this.#add(half);
  }

  /** Returns false if a half has ended or been replaced. */
  has(half: Half): boolean {
    return this.#halves.get(half.kind) === half;
  }

  /** Ends a half, and the session if this is its last half. Does nothing if the half has ended or been replaced. */
  endHalf(half: Half, reason: LeaveReason): void {
    if (!this.has(half)) return;
    if (this.#halves.size === 1) {
      this.#end(reason);
      return;
    }
    this.#halves.delete(half.kind);
    this.#parts.onHalfEnded(half);
    if (half.kind === 'whip') this.#peer.stopSpeaking();
    else this.#peer.stopHearing();
    this.#tellPath();
  }

  /** Applies a change of the account or of its valid credentials. */
  accountChanged(account: Account, keys: KeyState): void {
    this.#account = account;
    for (const half of this.#halves.values()) {
      const fault = accountFault(account, keys, half.credentials);
      if (fault) this.endHalf(half, fault.code);
    }
  }

  /** Closes the session, because the month's minutes are used up. */
  exhaust(resetsAt: string): void {
    this.fail(minutesExhausted(resetsAt));
  }

  /** Mutes or unmutes the peer. @throws {Error} if the media worker of its room dies or hangs */
  setMuted(isMuted: boolean): Promise<void> {
    return this.#peer.setMuted(isMuted);
  }

  /** Closes the session because of a fault. */
  fail(fault: unknown): void {
    if (this.#isClosed) return;
    const error = PartylineError.from(fault);
    const { code } = error;
    if (code !== 'media_lost') this.endFault = error;
    if (code === 'internal_error') this.log.error({ err: fault }, 'whip session failed');
    this.#end(code);
  }

  /** Closes the session, because the same peer has connected again. */
  replace(): void {
    this.fail(replaced());
  }

  /**
   * Closes this session within `withinMs`: the same peer has connected to another node. Others hear the peer
   * through this session until the new node carries its audio.
   */
  replaceSoon(withinMs: number): void {
    clearTimeout(this.#replacing);
    if (!this.#isClosed) this.#replacing = setTimeout(() => this.replace(), withinMs);
  }

  /** Closes the session at the end of a drain. */
  drain(): void {
    this.fail(new PartylineError('draining', 'This node is draining.'));
  }

  /**
   * Ends each half whose client has not connected, or not reconnected, in time, or sends too much while it is muted.
   * @param hasStoodStill true if this process has not run for a while, and so has not read the client
   */
  beat(nowMs: number, hasStoodStill: boolean): void {
    this.#peer.watchRtp(nowMs);
    for (const half of this.#halves.values()) {
      this.#look(half);
      // Changes of the path that came while the process stood still are unread.
      if (hasStoodStill || !half.isOverdue(nowMs, this.#parts.timeouts)) continue;
      this.log.info({ kind: half.kind, state: half.state }, 'whip client timed out');
      this.endHalf(half, half.state === 'dead' ? 'media_lost' : 'closed');
    }
  }

  /** Does nothing: clients of WHIP and WHEP get no messages. */
  notify(): void {}

  notifyLater(): boolean {
    return false;
  }

  flush(): void {}

  sendAudio(): void {}

  takeRelayed(): void {}

  volumeLimited(): void {}

  /** Adds a half, which replaces the previous one of its kind. */
  #add(half: Half): void {
    const before = this.#halves.get(half.kind);
    if (before) this.#parts.onHalfEnded(before);
    this.#halves.set(half.kind, half);
    half.path.onChange = () => this.#look(half);
    this.#parts.onHalf(half);
    this.#look(half);
    this.#tellPath();
  }

  #look(half: Half): void {
    if (this.#isClosed || !this.has(half)) return;
    const hasChanged = half.look(performance.now());
    if (!hasChanged && half.state !== 'open') return;
    if (hasChanged) this.log.debug({ kind: half.kind, state: half.state }, 'whip path changed');
    if (half.state === 'cut') {
      this.fail(transportCut());
      return;
    }
    if (half.state === 'ended') {
      this.endHalf(half, 'closed');
      return;
    }
    if (half.kind === 'whep') this.#steerStream(half);
    this.#tellPath();
  }

  #steerStream(half: Half): void {
    if (half.state !== 'open') this.#peer.stopStream();
    else if (this.#streamOptions) this.#peer.startStream(this.#streamOptions);
  }

  /** Suspends the peer while all its halves have lost their connection. */
  #tellPath(): void {
    const halves = [...this.#halves.values()];
    this.#peer.pathChanged(halves.every((half) => half.isLost));
  }

  #end(reason: LeaveReason): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#replacing);
    for (const half of this.#halves.values()) this.#parts.onHalfEnded(half);
    this.#halves.clear();
    this.#peer.close(reason);
    this.#parts.onClosed(reason);
    this.log.info({ reason }, 'whip session ended');
  }
}
