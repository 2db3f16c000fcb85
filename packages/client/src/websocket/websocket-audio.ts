import type { ServerMessage } from '../../../../src/protocol/messages.ts';
import { RequestError } from '../errors.ts';
import { tellMute } from '../muting.ts';
import type {
  AudioHandlers,
  AudioParts,
  RoomAudio,
  SoundSettings,
  UnsentAudio,
} from '../room-audio.ts';
import { runsSoon } from '../runs-soon.ts';
import type { AudioAssets } from '../state.ts';
import type { AudioCounters } from '../stats.ts';
import type { Wire } from '../wire.ts';
import { AudioGraph } from './audio-graph.ts';
import { type Encoder, openEncoder } from './encoder.ts';
import { takeUntoldVolumes } from './untold-volumes.ts';

/** Empty frame, which tells the gateway that this peer is connected over the WebSocket before it has audio to send. */
const NOTHING = new Uint8Array(0);

/** Time for which audio that has been received is played after another transport has taken over, ms: the delay of a good network, and a packet. */
const REST_MS = 60;

/** Audio over the WebSocket: Opus packets to the gateway, and the mix of all others back. */
export class WebSocketAudio implements RoomAudio {
  readonly transport = 'websocket';
  readonly openedMs = performance.now();
  readonly #wire: Wire;
  readonly #peers: AudioParts['peers'];
  readonly #settings: SoundSettings;
  readonly #handlers: AudioHandlers;
  readonly #opened: Promise<void>;
  readonly #encoderUrl: string | URL;
  #graph: AudioGraph | undefined;
  #encoder: Encoder | undefined;
  #recording: Promise<void> = Promise.resolve();
  #isClosed = false;
  /** Timer of the end of playback. */
  #retiring: ReturnType<typeof setTimeout> | undefined;
  /**
   * True once the gateway has been told the settings. Until then it may still have this client on WebRTC, and
   * refuse volumes.
   */
  #isTold = false;
  /** The request that tells the volumes that have changed since the last one; undefined if there are none. */
  #nextVolumes: Promise<void> | undefined;
  /** The answer to the last request with volumes. They are sent one at a time: a slider would exceed the connection's message budget. */
  #volumesAnswered: Promise<void> = Promise.resolve();
  #rttMs: number | undefined;
  #unsent: UnsentAudio | undefined;
  readonly #counters = {
    bytesSent: 0,
    bytesReceived: 0,
    packetsReceived: 0,
    packetsLost: 0,
    underruns: 0,
  };

  constructor({ wire, peers, settings, assets, handlers }: AudioParts) {
    this.#wire = wire;
    this.#peers = peers;
    this.#settings = settings;
    this.#handlers = handlers;
    this.#encoderUrl = assets.encoder;
    this.#opened = this.#open(assets);
    wire.onFrame = (frame) => this.#hear(frame);
  }

  /** A WebSocket that carries nothing counts as lost, which the client reports itself. */
  get isPathBroken(): boolean {
    return false;
  }

  get isStopped(): boolean {
    return this.#graph?.isStopped ?? false;
  }

  /** A click that resumes playback also resumes a recording that the browser has stopped. */
  get isPlaybackBlocked(): boolean {
    const { muted, microphone } = this.#settings;
    const isRecording = !muted && microphone !== null;
    return (isRecording ? this.#graph?.isBlocked : this.#graph?.isStopped) ?? false;
  }

  get hasPath(): boolean {
    return this.#graph !== undefined;
  }

  get unsent(): UnsentAudio | undefined {
    const { muted, microphone } = this.#settings;
    return muted || !microphone ? undefined : this.#unsent;
  }

  get mixTrack(): MediaStreamTrack | undefined {
    return this.#graph?.mixTrack;
  }

  opened(): Promise<void> {
    return this.#opened;
  }

  applyMicrophone(): Promise<void> {
    const turn = this.#recording.then(() => this.#record(this.#settings.microphone));
    this.#recording = turn.catch(() => undefined); // told to this caller, not to the next
    return turn;
  }

  async prove(): Promise<void> {
    if (this.#isClosed) return; // given up while it was being opened
    this.#wire.sendFrame(NOTHING);
    // The empty frame has proved it. The microphone is applied again, and its failure told, once
    // the gateway has changed over.
    await this.applyMicrophone().catch(() => undefined);
  }

  async applySettings(): Promise<void> {
    const { muted, toldMuted } = this.#settings;
    this.#isTold = true;
    const untold = takeUntoldVolumes(this.#settings, this.#peers);
    if (muted === toldMuted && !untold) return;
    const volume = untold?.volume;
    const { request } = this.#wire;
    try {
      await this.#told(volume, tellMute(request, this.#settings, volume && { volume }));
    } catch (error) {
      // No part of a refused message takes effect: the mute is told again, alone.
      if (volume && error instanceof RequestError && !error.retryable) await this.applyMuted();
      throw error;
    }
    if (untold?.hasMore) await this.applyVolume();
  }

  async applyMuted(): Promise<void> {
    const { muted, microphone, toldMuted } = this.#settings;
    if (microphone) microphone.enabled = !muted;
    if (this.#isClosed || muted === toldMuted) return;
    await tellMute(this.#wire.request, this.#settings);
  }

  /** Tells the gateway the volumes that it does not know; while some are being told, those that change wait, and are told together. */
  applyVolume(): Promise<void> {
    if (!this.#isTold) return Promise.resolve();
    this.#nextVolumes ??= this.#volumesAnswered.then(() => this.#tellVolumes());
    return this.#nextVolumes;
  }

  async applySpeaker(): Promise<void> {
    await this.#graph?.setSpeaker(this.#settings.speakerId);
  }

  trackOf(): undefined {
    return undefined;
  }

  receive(message: ServerMessage): void {
    if (message.type === 'stats') this.#rttMs = message.rtt_ms;
  }

  /** The audio does not depend on the connection. */
  resume(): void {
    this.#rttMs = undefined;
    this.#unsent = undefined;
  }

  resumePlayback(): void {
    // A further refusal is ignored: the caller acts in a click, and has told the user before.
    this.#graph?.resume().catch(() => undefined);
  }

  async counters(): Promise<AudioCounters> {
    if (!this.#graph) return { ...this.#counters };
    const { delayMs, jitterMs, outputMs, concealed, underruns } = await this.#graph.playoutStats();
    return {
      ...this.#counters,
      packetsLost: this.#counters.packetsLost + concealed,
      underruns,
      jitterMs,
      playoutMs: delayMs + outputMs,
      ...(this.#rttMs !== undefined && { rttMs: this.#rttMs }),
    };
  }

  packetsReceived(): Promise<number> {
    return Promise.resolve(this.#counters.packetsReceived);
  }

  rtcStats(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  setHurried(isHurried: boolean): void {
    this.#graph?.setHurried(isHurried);
  }

  retire(): void {
    this.#end();
    this.#retiring = setTimeout(() => this.close(), REST_MS);
  }

  close(): void {
    clearTimeout(this.#retiring);
    this.#end();
    this.#graph?.close();
  }

  /** Ends everything but playback. */
  #end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#wire.onFrame = undefined;
    this.#graph?.stopRecording();
    this.#encoder?.close();
  }

  async #open(assets: AudioAssets): Promise<void> {
    const graph = await AudioGraph.open(assets);
    if (this.#isClosed) return graph.close();
    this.#graph = graph;
    graph.onBlocked(() => void this.#unblock(graph));
    if (this.#settings.speakerId !== '') await this.applySpeaker().catch(() => undefined);
    if (graph.isBlocked) await this.#unblock(graph);
    // If the gateway still has a place by WebRTC, this `joined` belongs to a change of transport,
    // which waits for a message.
    this.#wire.sendFrame(NOTHING);
  }

  /**
   * Unblocks a context that was made without a click, or that the browser has stopped; it may run all the
   * same, or wait for a click.
   */
  async #unblock(graph: AudioGraph): Promise<void> {
    const isRunning = await runsSoon(() => graph.resume());
    if (!isRunning && !this.#isClosed) this.#handlers.playbackBlocked();
  }

  async #record(track: MediaStreamTrack | null): Promise<void> {
    const graph = this.#graph;
    if (!graph || this.#isClosed) return;
    if (!track) {
      graph.stopRecording();
      return;
    }
    this.#encoder ??= await openEncoder(this.#encoderUrl, (packet) => this.#send(packet));
    if (this.#isClosed) return this.#encoder.close();
    track.enabled = !this.#settings.muted;
    this.#unsent = undefined;
    await graph.record(track, (frame) => this.#encode(frame));
    if (this.#isClosed) graph.stopRecording(); // the end of what was received may still be played
  }

  async #tellVolumes(): Promise<void> {
    this.#nextVolumes = undefined;
    if (this.#isClosed) return; // they are told over the next transport, or in the next room
    const untold = takeUntoldVolumes(this.#settings, this.#peers);
    if (!untold) return;
    const { volume, hasMore } = untold;
    const answered = this.#told(volume, this.#wire.request({ type: 'configure', volume }));
    this.#volumesAnswered = answered.catch(() => undefined); // told to these callers, not to the next
    await answered;
    if (hasMore) await this.applyVolume();
  }

  /** Awaits the answer to a request with volumes; those of one that failed are to be told again. */
  async #told(volume: Record<string, number> = {}, answer: Promise<unknown>): Promise<void> {
    try {
      await answer;
    } catch (error) {
      // Not equal to any gain.
      for (const peer of Object.keys(volume)) this.#settings.toldVolumes?.set(peer, NaN);
      throw error;
    }
  }

  #encode(frame: Float32Array<ArrayBuffer>): void {
    if (this.#settings.muted) {
      this.#unsent = undefined;
      return;
    }
    this.#unsent ??= { sinceMs: performance.now(), isEncoded: false };
    this.#encoder?.encode(frame);
  }

  #send(packet: Uint8Array<ArrayBuffer>): void {
    if (this.#isClosed || this.#settings.muted) return;
    if (this.#wire.sendFrame(packet)) {
      this.#counters.bytesSent += packet.byteLength;
      this.#unsent = undefined;
    } else if (this.#unsent) {
      this.#unsent.isEncoded = true;
    }
  }

  #hear(frame: ArrayBuffer): void {
    this.#counters.bytesReceived += frame.byteLength;
    if (frame.byteLength > 0) this.#counters.packetsReceived += 1;
    this.#graph?.play(frame);
  }
}
