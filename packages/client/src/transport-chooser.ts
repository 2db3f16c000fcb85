import type { Transport } from './state.ts';

/** Time without a path after which the client changes from WebRTC to the WebSocket, ms. On a good network a path takes a tenth of it. */
const PATIENCE_MS = 2500;
/** Minimum time before the preferred transport is tried again, ms, because a change may be heard. */
const BETWEEN_ATTEMPTS_MS = 60_000;
/** Time after which a change back to the preferred transport counts as successful, ms. */
const LASTING_MS = 120_000;
/** Minimum time between a change and the next one because of a dead path, ms: a new path takes time to open. */
const SETTLING_MS = 5000;
/** Minimum time between a failed change because of a dead path and the next attempt, ms. */
const BETWEEN_ESCAPES_MS = 10_000;
/** Minimum time between a failed change because audio flowed in only one direction and the next attempt, ms. */
const BETWEEN_RETREATS_MS = 30_000;
/** Maximum time between two attempts to change back to the preferred transport, ms. */
const LONGEST_PAUSE_MS = 30 * 60_000;

/** State of the present transport. */
export type Health = {
  transport: Transport;
  /** Time for which it has looked for a path, ms; 0 if it has one, or looks for none. */
  pathlessMs: number;
  /** True if the path that it had is broken. */
  isBroken: boolean;
  /** True if sent audio does not arrive at the gateway, or audio of others does not arrive here. */
  isOneWay: boolean;
};

/** Networks on which WebRTC recently did not work. */
export type TransportMemory = {
  isBlocked(network: string): boolean;
  setBlocked(network: string, isBlocked: boolean): void;
};

/**
 * Reason why a change of the transport failed. `no_path`: the network let no packets through; `interrupted`: the room was left or the
 * connection was lost, which says nothing about the transport; `refused`: the browser or the gateway cannot use the transport at present.
 */
export type ChangeFault = 'no_path' | 'interrupted' | 'refused';

/**
 * Chooses the transport: the preferred one, the other one while the preferred one does not work, and the preferred one again when it may
 * work. It only decides, and changes nothing itself. Times are of one monotonic clock, ms.
 */
export class TransportChooser {
  readonly #transports: readonly Transport[];
  readonly #memory: TransportMemory;
  #network = '';
  #present: Transport;
  #lastChangeMs = -Infinity;
  /** Time from which a dead path is a reason to leave the preferred transport, ms. */
  #leavesDeadMs = -Infinity;
  /** Time from which missing audio, although there is a path, is a reason to leave the preferred transport, ms. */
  #leavesOneWayMs = -Infinity;
  /** Time from which the preferred transport is tried again, ms. */
  #nextAttemptMs = Infinity;
  #pauseMs = BETWEEN_ATTEMPTS_MS;

  /** @param transports the preferred one first */
  constructor(transports: readonly Transport[], memory: TransportMemory) {
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

  /** True if the memory applies: it is about WebRTC alone, because a WebSocket that cannot be used says nothing about a network. */
  get #prefersWebRtc(): boolean {
    return this.#preferred === 'webrtc';
  }

  /** True if the preferred transport did not work on the present network of late. */
  get #isBlocked(): boolean {
    return this.#prefersWebRtc && this.#memory.isBlocked(this.#network);
  }

  /** True if there is another transport than the preferred one. */
  get areSeveral(): boolean {
    return this.#other !== undefined;
  }

  /** The transport with which a room is to be joined. */
  get present(): Transport {
    return this.#present;
  }

  /** Handles a change of the client's public network: what was learned on the previous one no longer applies. */
  onNetwork(network: string, nowMs: number): void {
    if (network === this.#network) return;
    this.#network = network;
    this.#pauseMs = BETWEEN_ATTEMPTS_MS;
    this.#leavesDeadMs = nowMs;
    this.#leavesOneWayMs = nowMs;
    if (this.#other && this.#isBlocked) {
      this.#present = this.#other;
      this.#waitFrom(nowMs);
    } else {
      this.#present = this.#preferred;
      this.#nextAttemptMs = nowMs; // a room that was kept may still use the other transport
    }
  }

  /**
   * Notes the transport over which the gateway still has this client in its room: the room is joined over it again, and the preferred one
   * is tried afterwards.
   */
  startWith(transport: Transport): void {
    if (this.#transports.includes(transport)) this.#present = transport;
  }

  /** Returns the transport to change to now; undefined to stay. */
  next(health: Health, nowMs: number): Transport | undefined {
    if (health.transport !== this.#preferred) {
      return nowMs >= this.#nextAttemptMs ? this.#preferred : undefined;
    }
    if (health.transport === 'websocket') return undefined;
    const isDead = health.pathlessMs >= PATIENCE_MS || health.isBroken;
    const isLeft =
      (isDead && nowMs >= this.#leavesDeadMs) || (health.isOneWay && nowMs >= this.#leavesOneWayMs);
    return isLeft ? this.#other : undefined;
  }

  /**
   * Notes that a room could not be opened here by the present transport. If that was the other one, the next join begins with the
   * preferred one again, on a network where it is blocked after some time.
   * @returns true if the other one takes its place
   */
  giveUpPresent(nowMs: number): boolean {
    if (!this.#other) return false;
    if (this.#present !== this.#preferred) {
      if (!this.#isBlocked || nowMs >= this.#nextAttemptMs) this.#present = this.#preferred;
      return false;
    }
    // Its code was not loaded, or the browser or the gateway does not support it, which says
    // nothing about the network.
    this.#goBy(this.#other, nowMs);
    return true;
  }

  /** Notes that audio now goes over `transport`, because of the network. */
  changed(transport: Transport, nowMs: number): void {
    const isBack = transport === this.#preferred;
    if (this.#prefersWebRtc) this.#memory.setBlocked(this.#network, !isBack);
    this.#goBy(transport, nowMs);
  }

  /** Makes a transport the present one. */
  #goBy(transport: Transport, nowMs: number): void {
    const lastedMs = nowMs - this.#lastChangeMs;
    this.#present = transport;
    this.#lastChangeMs = nowMs;
    this.#leavesDeadMs = nowMs + SETTLING_MS;
    this.#leavesOneWayMs = nowMs + BETWEEN_ATTEMPTS_MS;
    if (transport === this.#preferred) return;
    // A change back that did not last counts as a failed one.
    if (lastedMs >= LASTING_MS) this.#pauseMs = BETWEEN_ATTEMPTS_MS;
    this.#waitFrom(nowMs);
  }

  /** Notes that the change to `transport` failed. */
  failed(transport: Transport, nowMs: number, cause: ChangeFault): void {
    if (transport === this.#preferred) {
      // `onNetwork` has set the preferred transport for the next joins, but it has just failed.
      if (this.#other && cause !== 'interrupted') this.#present = this.#other;
      if (cause === 'no_path' && this.#prefersWebRtc) {
        this.#memory.setBlocked(this.#network, true);
      }
      return this.#waitFrom(nowMs);
    }
    this.#leavesDeadMs = nowMs + BETWEEN_ESCAPES_MS;
    this.#leavesOneWayMs = nowMs + BETWEEN_RETREATS_MS;
  }

  #waitFrom(nowMs: number): void {
    this.#nextAttemptMs = nowMs + this.#pauseMs;
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
  }
}
