import { FlowWatch } from './flow-watch.ts';
import { Pulse } from './pulse.ts';
import type { RoomAudio } from './room-audio.ts';
import type { Transport } from './state.ts';
import type { Health } from './ways.ts';
import type { Wire } from './wire.ts';

/** Time for which a path must be broken before that counts, ms: with losses ICE despairs now and then while packets come. */
const BROKEN_MS = 500;
/** Time without a first path after which the user is told, ms. */
const PATHLESS_MS = 3500;

/** Why sound does not flow, as sentences. */
const TROUBLES = {
  broken: 'No sound goes or comes: the way to the gateway is broken. Looking for another…',
  pathless:
    'No sound goes or comes: this network may block the gateway’s audio ports. Looking for a way…',
  stalled: 'No sound goes or comes: nothing comes from the gateway any more.',
  unheard: 'Nobody hears you: what you say does not arrive at the gateway.',
  deaf: 'Others speak, and what they say does not arrive here.',
} as const;

/** Facts about a room's sound that its audio does not know. */
type Surroundings = {
  /** Someone else is said to speak. */
  areOthersSpeaking: boolean;
  /** The gateway says that nothing of what is sent arrives. */
  isUnheard: boolean;
};

/** Finds out how the sound of a room does, and why it does not flow where it does not. */
export class HealthWatch {
  /** A sentence for the user; undefined while sound flows, or would if anybody spoke. */
  trouble: string | undefined;
  /** Sound goes in neither direction. */
  isInterrupted = false;
  readonly #wire: Wire;
  #flow = new FlowWatch();
  readonly #pulse: Pulse;
  #audio: RoomAudio | undefined;
  #pathlessSinceMs: number | undefined;
  #brokenSinceMs: number | undefined;

  constructor(wire: Wire) {
    this.#wire = wire;
    // Changes nothing, and is answered.
    this.#pulse = new Pulse(() => wire.request({ type: 'configure', volume: {} }));
  }

  /** Looks at the sound; to be called a few times a second. */
  async look(audio: RoomAudio, around: Surroundings, nowMs: number): Promise<Health> {
    if (audio !== this.#audio) this.#startWith(audio);
    const { transport, hasPath, isInterrupted } = audio;
    this.#pathlessSinceMs = hasPath ? undefined : (this.#pathlessSinceMs ?? nowMs);
    this.#brokenSinceMs = isInterrupted ? (this.#brokenSinceMs ?? nowMs) : undefined;
    // Statistics cost something: they are read only where they matter.
    const isWatched = transport === 'webrtc' && (around.areOthersSpeaking || isInterrupted);
    const packets = isWatched ? await packetsOf(audio) : undefined;
    // Before there is a path nothing can come: that is another matter.
    this.#flow.note(isWatched && hasPath && around.areOthersSpeaking, packets, nowMs);
    const pathlessMs = nowMs - (this.#pathlessSinceMs ?? nowMs);
    const brokenMs = nowMs - (this.#brokenSinceMs ?? nowMs);
    const isBroken = brokenMs >= BROKEN_MS && !this.#flow.isMoving(nowMs);
    const isDeaf = this.#flow.isSilenced(nowMs);
    const isPathless = pathlessMs >= PATHLESS_MS;
    const isStalled = this.#isStalled(transport, nowMs);
    this.isInterrupted = isPathless || isBroken || isStalled;
    this.trouble = sentenceFor([
      [isPathless, TROUBLES.pathless],
      [isBroken, TROUBLES.broken],
      [isStalled, TROUBLES.stalled],
      [around.isUnheard, TROUBLES.unheard],
      [isDeaf, TROUBLES.deaf],
    ]);
    const isSilenced = around.isUnheard || isDeaf;
    return { transport, pathlessMs, isInterrupted: isBroken, isSilenced };
  }

  /** Begins anew: nothing was looked at for a while, and what was found before holds no more. */
  reset(): void {
    this.#audio = undefined;
    this.trouble = undefined;
    this.isInterrupted = false;
  }

  #startWith(audio: RoomAudio): void {
    this.#audio = audio;
    this.#flow = new FlowWatch();
    this.#pathlessSinceMs = undefined;
    this.#brokenSinceMs = undefined;
  }

  /** Returns whether sound waits for the WebSocket, and gives up one that carries nothing. */
  #isStalled(transport: Transport, nowMs: number): boolean {
    const { heardMs } = this.#wire;
    if (heardMs === undefined) return false; // there is no connection, and the client says so
    const isSound = transport === 'websocket';
    const state = this.#pulse.look(isSound ? 'sound' : 'text', heardMs, nowMs);
    if (state === 'lost') this.#wire.fail('The connection went silent.');
    return isSound && state !== 'steady';
  }
}

/** Packets that have come; undefined where the browser does not tell, as of an audio that is being closed. */
const packetsOf = (audio: RoomAudio): Promise<number | undefined> =>
  audio.counters().then(
    ({ packetsReceived }) => packetsReceived,
    () => undefined,
  );

/** The sentence of the first that was found. */
const sentenceFor = (found: [isFound: boolean, sentence: string][]): string | undefined =>
  found.find(([isFound]) => isFound)?.[1];
