import { onShown } from '../on-shown.ts';
import { runsSoon } from '../runs-soon.ts';

/**
 * Shortest time between two pauses by the browser after which a track is played again without a click, ms: two
 * pages of which the browser plays only one would pause each other without end.
 */
const REPLAY_EVERY_MS = 2000;

type Player = {
  peer: string;
  element: HTMLAudioElement;
  /** Volume of the peer, 0 to 4. */
  gain: number;
  boost: Boost | undefined;
  /** True if the browser has refused to play it without a click. */
  isRefused: boolean;
  /** Time at which the browser last paused it, ms. */
  pausedMs: number;
  /** Aborted when it is removed. */
  removing: AbortController;
};
type Boost = { context: AudioContext; gain: GainNode };

/** Elements of Firefox and Chromium, and contexts of Chromium, can play on a device of the caller's choice; others only on the default one. */
type Sink = { setSinkId?: (deviceId: string) => Promise<void> };

/** Plays remote tracks, one `<audio>` element each. An element need not be in the page to be heard. */
export class Playback {
  readonly #players = new Map<string, Player>();
  readonly #blocked: () => void;
  #speakerId: string;
  /** True once a volume between 0 and 1 has been requested. */
  #isProbed = false;
  /** True if the volume of elements cannot be set: iOS knows only whether they are muted. */
  #isVolumeFixed = false;

  /**
   * @param blocked called when the browser plays only after a click, in whose handler `resume()` must be called
   * @param speakerId empty for the default speakers
   */
  constructor(blocked: () => void, speakerId: string) {
    this.#blocked = blocked;
    this.#speakerId = speakerId;
  }

  /** True while the browser waits for a click before it plays some of the tracks. */
  get isBlocked(): boolean {
    return [...this.#players.values()].some(
      ({ element, boost, isRefused }) =>
        isRefused && (element.paused || (boost && boost.context.state !== 'running')),
    );
  }

  /** Starts to play a track. @param gain 0 to 4 */
  add(id: string, peer: string, track: MediaStreamTrack, gain: number): void {
    const element = new Audio();
    element.srcObject = new MediaStream([track]);
    const player: Player = {
      peer,
      element,
      gain,
      boost: undefined,
      isRefused: false,
      pausedMs: -Infinity,
      removing: new AbortController(),
    };
    this.#players.set(id, player);
    const { signal } = player.removing;
    element.addEventListener('pause', () => this.#paused(player), { signal });
    onShown(() => this.#shown(player), signal);
    if (this.#speakerId !== '') void this.#setSpeakerOf(element).catch(() => undefined);
    this.#applyGain(player);
    this.#play(player);
  }

  remove(id: string): void {
    const player = this.#players.get(id);
    if (!player) return;
    this.#players.delete(id);
    player.removing.abort();
    endBoost(player);
    player.element.pause();
    player.element.srcObject = null;
  }

  /**
   * Sets the volume of a peer.
   * @param gain 0 to 4; above 1 by Web Audio, because an element's volume is at most 1, and everywhere between 0 and 1 if the
   * volume of elements cannot be set
   */
  setGain(peer: string, gain: number): void {
    for (const player of this.#players.values()) {
      if (player.peer !== peer) continue;
      player.gain = gain;
      this.#applyGain(player);
    }
  }

  /** @param deviceId empty for the default speakers. @throws {DOMException} no such device, or not allowed */
  async setSpeaker(deviceId: string): Promise<void> {
    this.#speakerId = deviceId;
    const sinks = [...this.#players.values()].flatMap(({ element, boost }) =>
      boost ? [element, boost.context] : [element],
    );
    // An element is tried even before the first track: an unusable device must be refused now.
    if (sinks.length === 0) sinks.push(new Audio());
    await Promise.all(sinks.map((sink) => this.#setSpeakerOf(sink)));
  }

  /** Plays the tracks that the browser had blocked. */
  resume(): void {
    for (const player of this.#players.values()) {
      const { element, boost } = player;
      if (element.paused) this.#play(player);
      // A further refusal is ignored: the user was told before.
      if (boost && boost.context.state !== 'running') boost.context.resume().catch(() => undefined);
    }
  }

  close(): void {
    for (const id of this.#players.keys()) this.remove(id);
  }

  async #setSpeakerOf(sink: HTMLAudioElement | AudioContext): Promise<void> {
    await (sink as Sink).setSinkId?.(this.#speakerId);
  }

  #applyGain(player: Player): void {
    const { element, gain } = player;
    const isReduced = gain > 0 && gain < 1;
    if (isReduced && !this.#isProbed) void this.#probeVolume();
    const isBoosted = gain > 1 || (isReduced && this.#isVolumeFixed);
    element.volume = Math.min(1, gain);
    if (!isBoosted) {
      element.muted = gain === 0;
      endBoost(player);
      return;
    }
    if (!player.boost) {
      player.boost = startBoost(element.srcObject as MediaStream);
      const { context } = player.boost;
      if (this.#speakerId !== '') void this.#setSpeakerOf(context).catch(() => undefined);
      context.addEventListener('statechange', () => {
        if (player.boost?.context === context) this.#applyGain(player);
        void this.#unblock(player, context);
      });
      void this.#unblock(player, context);
    }
    player.boost.gain.gain.value = gain;
    // The element must play, or the boosted track is silent; a reduced volume is better too loud
    // than silent.
    element.muted = gain > 1 || player.boost.context.state === 'running';
  }

  /** Finds out whether volumes of elements can be set: the value that was set may be read back until the task ends. */
  async #probeVolume(): Promise<void> {
    this.#isProbed = true;
    const spare = new Audio();
    spare.volume = 0.5;
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#isVolumeFixed = spare.volume !== 0.5;
    if (this.#isVolumeFixed) for (const player of this.#players.values()) this.#applyGain(player);
  }

  /**
   * Unblocks a context that was made without a click, or that the browser has stopped; it may run all the
   * same, or wait for a click.
   */
  async #unblock(player: Player, context: AudioContext): Promise<void> {
    const isWanted = () => player.boost?.context === context;
    if (!isWanted() || context.state === 'running') return;
    const isRunning = await runsSoon(() => context.resume());
    if (!isRunning && isWanted()) this.#refused(player);
  }

  #play(player: Player): void {
    player.element.play().catch((error: unknown) => {
      // Any other name means that the element was removed before it started.
      if (error instanceof DOMException && error.name === 'NotAllowedError') this.#refused(player);
    });
  }

  /** Handles a pause that the browser made: for a phone call, for another page, or because the track ended. */
  #paused(player: Player): void {
    const nowMs = performance.now();
    const mayReplay = nowMs - player.pausedMs >= REPLAY_EVERY_MS;
    player.pausedMs = nowMs;
    void this.#replay(player, mayReplay);
  }

  /** Handles that the page is visible again: while it was hidden, the browser may have stopped everything. */
  #shown(player: Player): void {
    void this.#replay(player);
    if (player.boost) void this.#unblock(player, player.boost.context);
  }

  /** Plays a track that the browser may have paused; it plays, or waits for the end of a phone call or a click. */
  async #replay(player: Player, mayReplay = true): Promise<void> {
    const { element, removing } = player;
    const isWanted = () => element.paused && !element.ended && !removing.signal.aborted;
    if (!isWanted()) return;
    // During a phone call iOS neither plays nor refuses.
    if (mayReplay) await runsSoon(() => element.play());
    if (isWanted()) this.#refused(player);
  }

  #refused(player: Player): void {
    player.isRefused = true;
    this.#blocked();
  }
}

function startBoost(stream: MediaStream): Boost {
  const context = new AudioContext();
  const gain = new GainNode(context);
  context.createMediaStreamSource(stream).connect(gain).connect(context.destination);
  return { context, gain };
}

function endBoost(player: Player): void {
  // Closing fails only if it is closed already.
  player.boost?.context.close().catch(() => undefined);
  player.boost = undefined;
}
