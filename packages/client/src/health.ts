import { FlowWatch } from './flow-watch.ts';
import { Pulse } from './pulse.ts';
import type { RoomAudio } from './room-audio.ts';
import type { Health } from './transport-chooser.ts';
import type { Wire } from './wire.ts';

/**
 * Time for which a failure of the path must be reported before the path counts as broken, ms: with packet loss
 * ICE sometimes reports a failure although packets arrive.
 */
const BROKEN_MS = 500;
/** The user is told when the browser has stopped the audio, or its playback, for this long, ms: a context takes a moment to start. */
const STOPPED_MS = 500;
/** Time after which the user is told that there is no path yet, or that the room is not open yet, ms. */
const PATHLESS_MS = 3500;
/** Time within which audio must arrive after the gateway has agreed to send it, ms. */
const ARRIVES_WITHIN_MS = 1500;
/** The user is told when the system has muted the microphone for this long, ms: browsers mute one for a moment when it starts. */
const SYSTEM_MUTED_MS = 1000;
/** The user is told when nothing of the recorded audio has been sent for this long, ms: stalls of a network are often shorter. */
const UNSENT_MS = 2000;

/** Sentences that say why audio does not flow. */
const TROUBLES = {
  broken: 'No audio in either direction: the path to the gateway is broken. Looking for another…',
  pathless:
    'No audio in either direction: this network may block the gateway’s audio ports. Looking for another path…',
  unanswered: 'No audio in either direction: the gateway has not answered the request for it yet.',
  unloaded: 'No audio in either direction: the browser has not loaded the files for audio yet.',
  stopped:
    'No audio in either direction: the browser has stopped it. A click, or the end of a phone call, may help.',
  stalled: 'No audio in either direction: nothing arrives from the gateway any more.',
  unheard: 'Nobody hears you: your audio does not arrive at the gateway.',
  unencoded: 'Nobody hears you: the browser cannot encode your audio.',
  congested: 'Nobody hears you: the network is too slow to send your audio.',
  unrecorded:
    'Nobody hears you: the browser has stopped recording. A click, or the end of a phone call, may help.',
  systemMuted: 'Nobody hears you: the system or the browser has muted the microphone.',
  blocked: 'You do not hear everybody: the browser plays audio only after a click.',
  deaf: 'You do not hear the others: their audio does not arrive here.',
  opening: 'Audio may be missing: the browser or the gateway takes long to open the room.',
} as const;

/** Facts about a room's audio that `RoomAudio` does not know. */
type Surroundings = {
  /** True if the gateway reports another speaker whose audio this client should receive. */
  areOthersSpeaking: boolean;
  /** True if the gateway reports that no audio of this client arrives. */
  isUnheard: boolean;
  /** Reason why the gateway refuses the audio that this client has to send; undefined if it accepts it. */
  refusal: string | undefined;
  /** True if the system or the browser has muted the microphone, and the client has not. */
  isSystemMuted: boolean;
  /** True until the join is complete. */
  isOpening: boolean;
};

/** Monitors the audio of a room, and finds the reason if it does not flow. */
export class HealthWatch {
  /** Sentence for the user; undefined if nothing is known to be wrong. */
  trouble: string | undefined;
  /** True if audio flows in neither direction. */
  isInterrupted = false;
  /** True if the browser plays or records audio only after a click. */
  isPlaybackBlocked = false;
  readonly #wire: Wire;
  #flow = new FlowWatch();
  readonly #pulse: Pulse;
  #audio: RoomAudio | undefined;
  /** Times since which facts have held, ms, by fact. */
  readonly #since = new Map<string, number>();

  constructor(wire: Wire) {
    this.#wire = wire;
    // A `configure` without effect, which the gateway answers.
    this.#pulse = new Pulse(() => wire.request({ type: 'configure', volume: {} }));
  }

  /** True while it is unknown whether the WebSocket still carries anything. */
  get isAsking(): boolean {
    return this.#pulse.isAsking;
  }

  /** Checks the audio; to be called a few times a second. */
  async check(audio: RoomAudio, around: Surroundings, nowMs: number): Promise<Health> {
    if (audio !== this.#audio) this.#startWith(audio);
    const { transport, hasPath, isPathBroken, isStopped, isPlaybackBlocked } = audio;
    const isAskingForPath = audio.isAskingForPath ?? false;
    const heldMs = (fact: string, holds: boolean) => this.#heldMs(fact, holds, nowMs);
    const noPathMs = heldMs('no path', !hasPath);
    // Until the gateway has answered, the absence of a path says nothing about the network.
    const pathlessMs = heldMs('pathless', !hasPath && !isAskingForPath);
    const brokenMs = heldMs('broken', isPathBroken);
    const isSoundStopped = heldMs('stopped', isStopped) >= STOPPED_MS;
    this.isPlaybackBlocked = heldMs('blocked', isPlaybackBlocked) >= STOPPED_MS;
    const isSystemMuted = heldMs('muted by the system', around.isSystemMuted) >= SYSTEM_MUTED_MS;
    const isLate = heldMs('opening', around.isOpening) >= PATHLESS_MS;
    const agreedMs = heldMs('audio agreed', !(audio.isAskingForAudio ?? false));
    // Reading statistics is expensive: they are read only if they matter.
    const isWatched = around.areOthersSpeaking || isPathBroken;
    const flow = this.#flow;
    const packets = isWatched ? await packetsOf(audio) : undefined;
    // After `reset()` what was read before it does not count.
    if (flow !== this.#flow) {
      return { transport, pathlessMs: 0, isBroken: false, isOneWay: false };
    }
    // Without a path nothing can arrive, which is reported separately.
    flow.note(hasPath && around.areOthersSpeaking, packets, nowMs);
    const isBroken = brokenMs >= BROKEN_MS && !flow.isMoving(nowMs);
    const nothingArrivesSinceMs = flow.nothingArrivesSinceMs(nowMs);
    // Silence may only mean that the others stopped, and that the message that says so was lost
    // with the WebSocket: nothing has come over it since.
    const mayBeLost = (this.#wire.heardMs ?? nowMs) <= (nothingArrivesSinceMs ?? -Infinity);
    const isDeaf = nothingArrivesSinceMs !== undefined && !mayBeLost;
    const { unsent } = audio;
    const isUnsent = unsent !== undefined && nowMs - unsent.sinceMs >= UNSENT_MS;
    const isPathless = noPathMs >= PATHLESS_MS;
    const pathless = pathlessMs >= PATHLESS_MS ? TROUBLES.pathless : TROUBLES.unanswered;
    // A join waits for answers, without which its audio cannot begin over any transport.
    const needsWebSocket = transport === 'websocket' || around.isOpening;
    const isStalled = this.#checkWebSocket(needsWebSocket, mayBeLost, nowMs);
    this.isInterrupted = isPathless || isBroken || isSoundStopped || isStalled;
    this.trouble = sentenceFor([
      [isPathless, transport === 'webrtc' ? pathless : TROUBLES.unloaded],
      [isBroken, TROUBLES.broken],
      [isSoundStopped, TROUBLES.stopped],
      [isStalled, TROUBLES.stalled],
      [around.refusal !== undefined, `Nobody hears you: ${around.refusal}`],
      [around.isUnheard, TROUBLES.unheard],
      [isUnsent, unsent?.isEncoded ? TROUBLES.congested : TROUBLES.unencoded],
      [isSystemMuted, TROUBLES.systemMuted],
      [this.isPlaybackBlocked, transport === 'webrtc' ? TROUBLES.blocked : TROUBLES.unrecorded],
      [isDeaf, TROUBLES.deaf],
      [isLate, TROUBLES.opening],
    ]);
    // Until the gateway has accepted the request for a peer's audio, and audio has had time to
    // arrive, missing audio says nothing about the path.
    const isOneWay = around.isUnheard || (isDeaf && agreedMs >= ARRIVES_WITHIN_MS);
    return { transport, pathlessMs, isBroken, isOneWay };
  }

  /** Resets the state after a time without checks. */
  reset(): void {
    this.#audio = undefined;
    this.#flow = new FlowWatch();
    this.trouble = undefined;
    this.isInterrupted = false;
    this.isPlaybackBlocked = false;
  }

  #startWith(audio: RoomAudio): void {
    this.#audio = audio;
    this.#flow = new FlowWatch();
    this.#since.clear();
  }

  /** Returns the time for which a fact has held, ms; 0 if it does not. */
  #heldMs(fact: string, holds: boolean, nowMs: number): number {
    if (!holds) this.#since.delete(fact);
    else if (!this.#since.has(fact)) this.#since.set(fact, nowMs);
    return nowMs - (this.#since.get(fact) ?? nowMs);
  }

  /** Gives up a WebSocket that carries nothing. Returns true if audio needs it and is stalled. */
  #checkWebSocket(needsWebSocket: boolean, mayBeLost: boolean, nowMs: number): boolean {
    const { heardMs } = this.#wire;
    if (heardMs === undefined) return false; // there is no connection: the client reports that by itself
    const carries = needsWebSocket ? 'sound' : 'text';
    const state = this.#pulse.look(mayBeLost ? 'doubt' : carries, heardMs, nowMs);
    if (state === 'lost') this.#wire.fail('The connection went silent.');
    return needsWebSocket && state !== 'steady';
  }
}

/** Returns the number of received packets; undefined if the browser does not count them, or the audio is being closed. */
const packetsOf = (audio: RoomAudio): Promise<number | undefined> =>
  audio.packetsReceived().catch(() => undefined);

/** Returns the sentence of the first trouble that was found. */
const sentenceFor = (found: [isFound: boolean, sentence: string][]): string | undefined =>
  found.find(([isFound]) => isFound)?.[1];
