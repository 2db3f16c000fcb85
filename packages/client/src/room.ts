import type { PeerKind, ServerMessage } from '../../../src/protocol/messages.ts';
import type { Connection } from './connection.ts';
import { type Deferred, defer } from './deferred.ts';
import { RequestError } from './errors.ts';
import { HealthWatch } from './health.ts';
import { askForPlace } from './place-requests.ts';
import type { RoomAudio } from './room-audio.ts';
import { Retries } from './retries.ts';
import type { Joined, OpenAudio, RoomParts } from './room-parts.ts';
import type { RemotePeer, Transport } from './state.ts';
import type { Health } from './transport-chooser.ts';
import { Wire } from './wire.ts';

/**
 * Time after the microphone opens for which a report of missing packets is ignored, ms: the gateway checks once a second, and waits for another.
 */
const FLOW_REPORT_MS = 2500;
/** Time after which a change without an answer counts as done, ms: the gateway gives one up after 10 s. */
const CHANGE_TIMEOUT_MS = 15_000;
/**
 * Minimum time for which a failed change must have searched for a path to blame the network, ms. On a good network a path takes a tenth
 * of it.
 */
const SEARCHED_MS = 2500;

/** One stay in a room: its peers, its speakers, and the audio, which continues while there is no connection. */
export class Room {
  readonly name: string;
  readonly peers = new Map<string, RemotePeer>();
  /** True once the audio is open, and the gateway has answered the requests of the join. */
  isReady = false;
  speaking: ReadonlyMap<string, number | undefined> = new Map();
  readonly #parts: RoomParts;
  readonly #wire: Wire;
  readonly #watch: HealthWatch;
  #audio: RoomAudio;
  /** Audio over the other transport, tried beside the present one. */
  #next: { audio: RoomAudio; done: Deferred<void> } | undefined;
  /** Audio before the last change, of which the end may still be played. Kept, although that ends by itself, until the next change or the end of the stay. */
  #retired: RoomAudio | undefined;
  /** True while the gateway may still report the end of a change that was given up here. */
  #hasGivenUp = false;
  #transportThere: Transport;
  /** True if the gateway reports that no audio of this client arrives. */
  #isUnheard = false;
  /** Reason for which the microphone's audio cannot be sent. */
  #microphoneFault: string | undefined;
  readonly #microphoneRetries = new Retries();
  /** Time since which the microphone is open, by `performance.now()`; undefined while it is not. */
  #sendsSinceMs: number | undefined;
  #isClosed = false;

  /** @throws if the answer to the join lacks what the transport needs */
  constructor(parts: RoomParts) {
    this.name = parts.joined.room;
    this.#parts = parts;
    this.#wire = new Wire(parts.connection);
    this.#watch = new HealthWatch(this.#wire);
    this.#audio = this.#openAudio(parts.openAudio, parts.joined);
    this.#transportThere = this.#audio.transport;
    this.#meet(parts.joined.peers);
  }

  get audio(): RoomAudio {
    return this.#audio;
  }

  /** Transport by which the gateway has this client, as far as it is known. */
  get transportThere(): Transport {
    return this.#transportThere;
  }

  /** Sentence that says why audio does not flow; undefined while it flows. */
  get trouble(): string | undefined {
    return this.#watch.trouble;
  }

  /** True if audio flows in neither direction. */
  get isInterrupted(): boolean {
    return this.#watch.isInterrupted;
  }

  /** True while it is unknown whether the WebSocket still carries anything. */
  get isAsking(): boolean {
    return this.#watch.isAsking;
  }

  /** True if the browser plays or records audio only after a click. */
  get isPlaybackBlocked(): boolean {
    return this.#watch.isPlaybackBlocked;
  }

  /**
   * Opens the audio in both directions. A microphone or settings that are refused are faults, and the room stays open. Resolves early if
   * the room is closed.
   * @throws {RequestError} if another attempt may succeed
   * @throws if the browser cannot do what the room needs
   */
  async open(): Promise<void> {
    await this.#audio.opened();
    if (!this.#isClosed) await this.#applySettings();
    if (!this.#isClosed) {
      await this.applyMicrophone().catch((error: unknown) =>
        this.#tell(`You cannot be heard: ${wordsOf(error)}`),
      );
    }
    this.isReady = !this.#isClosed;
  }

  /**
   * Tells the gateway the settings at the join. A refusal is reported as a fault, and the room stays open.
   * @throws {RequestError} if another attempt may succeed
   */
  async #applySettings(): Promise<void> {
    try {
      await this.#audio.applySettings();
    } catch (error) {
      if (!(error instanceof RequestError) || error.retryable) throw error;
      this.#tell(`The settings were refused: ${error.message}`);
    }
  }

  /** Applies a setting to all audio that is open. @throws what `change` throws */
  async apply(change: (audio: RoomAudio) => Promise<void>): Promise<void> {
    const next = this.#next?.audio;
    try {
      await Promise.all([change(this.#audio), next && change(next)]);
    } catch (error) {
      if (error instanceof RequestError && error.code === 'forbidden') this.#refused(error);
      throw error;
    }
  }

  /** Sends the microphone's audio. A failure is shown in `trouble`, and `health()` tries again until it is sent. @throws what the audio throws */
  async applyMicrophone(): Promise<void> {
    try {
      await this.apply((audio) => audio.applyMicrophone());
      this.#microphoneFault = undefined;
      this.#microphoneRetries.end();
    } catch (error) {
      this.#microphoneFault = wordsOf(error);
      // An encoder whose file did not load may load later; a request may be refused for good.
      if (error instanceof RequestError && !error.retryable) this.#microphoneRetries.end();
      else this.#microphoneRetries.failed(performance.now());
      throw error;
    }
  }

  /**
   * Changes the transport of the audio. The old one carries it until the new one does. Resolves also if the gateway reports nothing for 15 s.
   * @throws {RequestError} if the gateway refuses, no path was found (`no_path`), nothing came over the new transport for another reason
   *   (`media_lost`), or the room is left (`left`)
   */
  async change(transport: Transport, openAudio: OpenAudio): Promise<void> {
    const joined = await askForPlace(this.#wire.request, this.name, transport);
    if (this.#isClosed) throw new RequestError('left', 'The room was left.', false);
    this.#giveUpChange();
    this.#hasGivenUp = false; // the gateway has given it up for this one
    const next = { audio: this.#openAudio(openAudio, joined), done: defer<void>() };
    this.#next = next;
    const { audio, done } = next;
    const opened = audio.opened();
    const proof = opened.then(() => audio.prove());
    // If the gateway reports neither a change nor a failure, it had this client on the new
    // transport already.
    const unanswered = setTimeout(() => {
      if (this.#next !== next) return;
      this.#changeDone();
      this.#parts.handlers.changed();
    }, CHANGE_TIMEOUT_MS);
    try {
      // The gateway may give up the change while the new audio is still being opened.
      await Promise.race([done.promise, proof.then(() => done.promise)]);
    } catch (error) {
      if (this.#next === next) this.#giveUpChange();
      throw error;
    } finally {
      clearTimeout(unanswered);
    }
    void this.#record(audio, opened);
    // The audio has changed over, whatever is refused from now on.
    await this.apply((sound) => sound.applySettings()).catch(this.#tell);
  }

  /** Sends the microphone's audio over the new transport as soon as that is open. If the client sends nothing over the old one, the gateway has changed over before that. */
  async #record(audio: RoomAudio, opened: Promise<void>): Promise<void> {
    try {
      await opened;
    } catch (error) {
      // The old audio has been closed.
      if (audio === this.#audio && !this.#isClosed) this.#parts.handlers.mediaLost(wordsOf(error));
      return;
    }
    await this.applyMicrophone().catch(this.#tell);
  }

  /** Returns the state of the audio; to be called a few times a second. */
  async health(nowMs: number): Promise<Health> {
    const { trouble, isPlaybackBlocked } = this;
    const { muted, microphone, refusal } = this.#parts.settings;
    const isOpen = !muted && microphone !== null && microphone.readyState !== 'ended';
    if (isOpen && this.#microphoneRetries.takeDue(nowMs)) {
      this.applyMicrophone().catch(() => undefined); // see `trouble`
    }
    const isSystemMuted = isOpen && microphone.muted;
    // While nothing is sent, the gateway's report of missing packets says nothing about the path.
    const sends = isOpen && !isSystemMuted;
    this.#sendsSinceMs = sends ? (this.#sendsSinceMs ?? nowMs) : undefined;
    const sendsForMs = nowMs - (this.#sendsSinceMs ?? nowMs);
    const isUnheard = this.#isUnheard && sendsForMs >= FLOW_REPORT_MS;
    const around = {
      areOthersSpeaking: this.#areOthersSpeaking,
      isUnheard,
      refusal: isOpen ? (refusal ?? this.#microphoneFault) : undefined,
      isSystemMuted,
      isOpening: !this.isReady,
    };
    const health = await this.#watch.check(this.#audio, around, nowMs);
    const isOther = trouble !== this.trouble || isPlaybackBlocked !== this.isPlaybackBlocked;
    if (isOther && !this.#isClosed) this.#parts.handlers.changed();
    return health;
  }

  /**
   * Notes that the connection is lost.
   * @returns true if the room can continue over another; otherwise it must be closed and joined again
   */
  suspend(): boolean {
    this.#wire.suspend();
    this.#giveUpChange();
    return !this.#wire.isOutcomeUnknown;
  }

  /**
   * Continues over another connection, with the changes made in the meantime.
   * @returns false if the gateway has the audio on the other transport: the room must then be joined again
   */
  resume(connection: Connection, joined: Joined): boolean {
    if ((joined.consumers !== undefined) !== (this.#audio.transport === 'webrtc')) return false;
    this.#wire.resume(connection);
    this.#watch.reset();
    this.#hasGivenUp = false;
    this.#isUnheard = false; // the gateway reports it again
    this.#audio.resume(joined);
    this.speaking = new Map();
    this.#meet(joined.peers);
    // Another token may allow publishing. If not, the gateway reports it again.
    if (this.#parts.settings.refusal !== undefined) {
      this.#parts.settings.refusal = undefined;
      this.applyMicrophone().catch(() => undefined);
    }
    return true;
  }

  /** Ends the audio; no handler is called. */
  close(): void {
    this.#isClosed = true;
    this.#giveUpChange();
    this.#retired?.close();
    this.#audio.close();
    this.#wire.close();
  }

  /** Handles a message that the gateway sent while the client is in this room. */
  receive(message: ServerMessage): void {
    switch (message.type) {
      case 'joined': // in place of events that were not sent
        if (message.room !== this.name) return;
        if (message.consumers && this.#audio.transport === 'webrtc') this.#audio.resume(message);
        this.#meet(message.peers);
        break;
      case 'peer_joined':
        if (message.peer === this.#parts.self) return;
        this.#note(message);
        break;
      case 'peer_changed': {
        const known = this.peers.get(message.peer);
        if (!known) return;
        const { kind = known.kind, muted = known.muted } = message;
        this.#note({ ...known, kind, muted });
        break;
      }
      case 'media_changed':
        this.#changedThere(message.kind);
        break;
      case 'error':
        if (message.reply_to !== undefined) {
          this.#changeFailedThere(message);
        } else if (message.code === 'forbidden') {
          this.#refused(message);
          this.#parts.handlers.fault(`You cannot be heard: ${message.message}`);
        }
        return;
      case 'rtp_flow':
        this.#isUnheard = message.state === 'stopped';
        this.#parts.handlers.flowChanged();
        return;
      case 'peer_left':
        this.peers.delete(message.peer);
        break;
      case 'speaking':
        this.speaking = new Map(message.peers.map(({ peer, level_dbov }) => [peer, level_dbov]));
        break;
      default:
        this.#audio.receive(message);
        this.#next?.audio.receive(message);
        return;
    }
    this.#parts.handlers.changed();
  }

  /** Reports a failure as a fault. */
  readonly #tell = (error: unknown): void => {
    if (!this.#isClosed) this.#parts.handlers.fault(wordsOf(error));
  };

  /** Notes that the gateway refuses audio from this client. */
  #refused({ message }: { message: string }): void {
    this.#parts.settings.refusal = message;
  }

  /**
   * True if a peer speaks whose audio must arrive: browsers get no unknown formats (speakers without a level), and possibly nothing of a peer whose
   * volume is 0.
   */
  get #areOthersSpeaking(): boolean {
    const { peers } = this;
    const { volumes } = this.#parts.settings;
    const isDue = (peer: string) => peers.has(peer) && volumes.get(peer) !== 0;
    return [...this.speaking].some(([peer, level]) => level !== undefined && isDue(peer));
  }

  /** Replaces the list of other peers. */
  #meet(peers: Joined['peers']): void {
    this.peers.clear();
    for (const peer of peers) if (peer.peer !== this.#parts.self) this.#note(peer);
  }

  #note({ peer, kind, muted }: Omit<RemotePeer, 'track'>): void {
    const track = this.#audio.trackOf(peer);
    this.peers.set(peer, { peer, kind, muted, ...(track && { track }) });
    if (!this.#parts.settings.volumes.has(peer)) return;
    this.apply((audio) => audio.applyVolume(peer)).catch(this.#tell);
  }

  #trackChanged(peer: string): void {
    const known = this.peers.get(peer);
    if (!known) return; // has left already, or is about to be announced
    this.#note(known);
    this.#parts.handlers.changed();
  }

  #openAudio(openAudio: OpenAudio, joined: Joined): RoomAudio {
    const { settings, assets, handlers } = this.#parts;
    const audio: RoomAudio = openAudio({
      joined,
      peers: this.peers,
      wire: this.#wire,
      settings,
      assets,
      handlers: {
        trackChanged: (peer) => this.#trackChanged(peer),
        pathChanged: () => {
          // Without a path, the attempt may still take seconds, or fail.
          if (audio === this.#next?.audio) this.#audio.setHurried(audio.hasPath);
          handlers.changed();
        },
        playbackBlocked: handlers.playbackBlocked,
        fault: handlers.fault,
        lost: (error) => {
          if (audio === this.#audio) handlers.mediaLost(error.message);
          else this.#next?.done.reject(error);
        },
      },
    });
    return audio;
  }

  /** Handles the end of a change in the gateway, which may have begun it at a join that was not meant as one. */
  #changedThere(kind: PeerKind): void {
    this.#hasGivenUp = false;
    this.#transportThere = kind === 'webrtc' ? 'webrtc' : 'websocket';
    if (this.#next?.audio.transport === kind) this.#changeDone();
    else if (this.#audio.transport !== kind) {
      this.#parts.handlers.mediaLost('The gateway has changed the transport of the audio.');
    }
  }

  /** Handles the failure of a change in the gateway, after its `joined`. */
  #changeFailedThere({ code, message }: { code: string; message: string }): void {
    // After a shorter search, the gateway has answered late, or its media worker has died: neither
    // says anything about the network.
    const isPathless = (this.#next?.audio.searchedMs ?? 0) >= SEARCHED_MS;
    const reason = new RequestError(isPathless ? 'no_path' : code, message, true);
    const wasChanging = this.#endChange(reason);
    if (!wasChanging && code === 'media_lost' && !this.#hasGivenUp) {
      // The gateway still has the client on the transport that it had before it joined this room.
      this.#transportThere = this.#audio.transport === 'webrtc' ? 'websocket' : 'webrtc';
      this.#parts.handlers.mediaLost(message);
    }
    this.#hasGivenUp = false;
  }

  #changeDone(): void {
    if (!this.#next) return;
    const { audio, done } = this.#next;
    this.#next = undefined;
    this.#isUnheard = false;
    this.#retired = this.#audio;
    this.#audio.retire();
    this.#audio = audio;
    this.#transportThere = audio.transport;
    for (const peer of this.peers.values()) this.#note(peer);
    done.resolve();
  }

  #giveUpChange(): void {
    const cancelled = new RequestError('left', 'The change of transport was cancelled.', true);
    if (this.#endChange(cancelled)) this.#hasGivenUp = true;
  }

  /** Ends a change that has not been made. @returns false if there is none */
  #endChange(reason: RequestError): boolean {
    if (!this.#next) return false;
    const { audio, done } = this.#next;
    this.#next = undefined;
    audio.close();
    this.#audio.setHurried(false);
    done.reject(reason);
    return true;
  }
}

const wordsOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
