import type { Transport } from './state.ts';

/** Time after which WebRTC that has no path is given up for the WebSocket, ms. On a good network a path takes a tenth. */
const PATIENCE_MS = 2500;
/** Shortest time before the preferred transport is tried again, ms: each change may be heard. */
const BETWEEN_ATTEMPTS_MS = 60_000;
/** Time after which a way back has proved good, ms. */
const LASTING_MS = 120_000;
/** Shortest time after a change for which a path must be dead before it is left, ms: it may just be coming about. */
const SETTLING_MS = 5000;
/** Shortest time before a dead path is left again after that failed, ms. */
const BETWEEN_ESCAPES_MS = 10_000;
/** Shortest time before one that carries in one direction is left again after that failed, ms. */
const BETWEEN_RETREATS_MS = 30_000;
/** Longest time between two attempts to go back to the preferred transport, ms. */
const LONGEST_PAUSE_MS = 30 * 60_000;

/** State of the present transport. */
export type Health = {
  transport: Transport;
  /** Time for which it has waited for a path, ms; 0 if it has one or needs none. */
  pathlessMs: number;
  /** The path that it had is broken. */
  isInterrupted: boolean;
  /** Sound that is sent does not arrive, or sound that should come does not. */
  isSilenced: boolean;
};

/** Networks on which WebRTC was of no use lately. */
export type WayMemory = {
  isBlocked(network: string): boolean;
  setBlocked(network: string, isBlocked: boolean): void;
};

/**
 * Cause for which a change of the transport came to nothing: no audio came by the new one, for which the network is held to be the reason; the room was
 * left, or its connection lost, which says nothing of the transport; or the transport could not be used.
 */
export type ChangeFault = 'no_audio' | 'interrupted' | 'refused';

/**
 * Chooses how sound goes: by the preferred transport, by the other one where that does not carry, and back when it does. It only says
 * what to do; times are in ms of any steady clock.
 */
export class Ways {
  readonly #transports: readonly Transport[];
  readonly #memory: WayMemory;
  #network = '';
  #present: Transport;
  #lastChangeMs = -Infinity;
  /** From when on the preferred transport is left because its path is dead. */
  #leavesDeadMs = -Infinity;
  /** From when on it is left because sound is missing although there is a path. */
  #leavesSilencedMs = -Infinity;
  /** From when on the way back to it is tried. */
  #nextAttemptMs = Infinity;
  #pauseMs = BETWEEN_ATTEMPTS_MS;

  /** @param transports the preferred one first */
  constructor(transports: readonly Transport[], memory: WayMemory) {
    this.#transports = transports;
    this.#memory = memory;
    this.#present = this.#preferred;
  }

  get #preferred(): Transport {
    return this.#transports[0]!;
  }

  get #other(): Transport | undefined {
    return this.#transports.find((transport) => transport !== this.#preferred);
  }

  /** The memory is about WebRTC alone: a WebSocket that could not be used says nothing of a network. */
  get #prefersWebRtc(): boolean {
    return this.#preferred === 'webrtc';
  }

  /** There is a choice. */
  get areSeveral(): boolean {
    return this.#other !== undefined;
  }

  /** The transport with which a room is to be joined. */
  get present(): Transport {
    return this.#present;
  }

  /** Takes the network that the gateway sees: what was found out on another does not hold. */
  onNetwork(network: string, nowMs: number): void {
    if (network === this.#network) return;
    this.#network = network;
    this.#pauseMs = BETWEEN_ATTEMPTS_MS;
    this.#leavesDeadMs = nowMs;
    this.#leavesSilencedMs = nowMs;
    if (this.#other && this.#prefersWebRtc && this.#memory.isBlocked(network)) {
      this.#present = this.#other;
      this.#waitFrom(nowMs);
    } else {
      this.#present = this.#preferred;
      this.#nextAttemptMs = nowMs; // a room that is kept from before may go another way
    }
  }

  /** The transport to change to now; undefined: none. */
  next(health: Health, nowMs: number): Transport | undefined {
    if (health.transport !== this.#preferred) {
      return nowMs >= this.#nextAttemptMs ? this.#preferred : undefined;
    }
    if (health.transport === 'websocket') return undefined;
    const isDead = health.pathlessMs >= PATIENCE_MS || health.isInterrupted;
    const isLeft =
      (isDead && nowMs >= this.#leavesDeadMs) ||
      (health.isSilenced && nowMs >= this.#leavesSilencedMs);
    return isLeft ? this.#other : undefined;
  }

  /** The preferred transport cannot be used at all here. @returns whether there is another */
  giveUpPreferred(nowMs: number): boolean {
    if (!this.#other || this.#present !== this.#preferred) return false;
    // Its code was not loaded, or browser or gateway lack it: that says nothing of the network.
    this.#goBy(this.#other, nowMs);
    return true;
  }

  /** Sound goes by this transport now, because of what the network does. */
  changed(transport: Transport, nowMs: number): void {
    const isBack = transport === this.#preferred;
    if (this.#prefersWebRtc) this.#memory.setBlocked(this.#network, !isBack);
    this.#goBy(transport, nowMs);
  }

  #goBy(transport: Transport, nowMs: number): void {
    const lastedMs = nowMs - this.#lastChangeMs;
    this.#present = transport;
    this.#lastChangeMs = nowMs;
    this.#leavesDeadMs = nowMs + SETTLING_MS;
    this.#leavesSilencedMs = nowMs + BETWEEN_ATTEMPTS_MS;
    if (transport === this.#preferred) return;
    // A way back that did not last counts as one that failed.
    if (lastedMs >= LASTING_MS) this.#pauseMs = BETWEEN_ATTEMPTS_MS;
    this.#waitFrom(nowMs);
  }

  /** The change to this transport came to nothing. */
  failed(transport: Transport, nowMs: number, cause: ChangeFault): void {
    if (transport === this.#preferred) {
      // `onNetwork` has set the preferred transport for the next joins, but it has just failed.
      if (this.#other && cause !== 'interrupted') this.#present = this.#other;
      if (cause === 'no_audio' && this.#prefersWebRtc) {
        this.#memory.setBlocked(this.#network, true);
      }
      return this.#waitFrom(nowMs);
    }
    this.#leavesDeadMs = nowMs + BETWEEN_ESCAPES_MS;
    this.#leavesSilencedMs = nowMs + BETWEEN_RETREATS_MS;
  }

  #waitFrom(nowMs: number): void {
    this.#nextAttemptMs = nowMs + this.#pauseMs;
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
  }
}
