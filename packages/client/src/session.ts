import type { ServerMessage } from '../../../src/protocol/messages.ts';
import type { Connection, MessageOf } from './connection.ts';
import { ClosedError, moved, RequestError } from './errors.ts';
import { Reconnector, type Pause } from './reconnector.ts';
import { loadAudio } from './load-audio.ts';
import { LOBBY } from './lobby.ts';
import { hearMute } from './muting.ts';
import {
  roomOf,
  type InRoom,
  type JoinablePhase,
  type Joining,
  type Phase,
  type WantedRoom,
} from './phase.ts';
import { askForPlace, leavePlace, leaveQuietly } from './place-requests.ts';
import { faultOf, isRepeated, noteBack, noteJoined, noteLost } from './rejoin.ts';
import { CLOSED_HERE, type CloseReason } from './retry.ts';
import type { Joined, OpenAudio } from './room-parts.ts';
import { Room } from './room.ts';
import { type Resumption, type SessionParts, UNTOLD } from './session-parts.ts';
import type { Transport } from './state.ts';
import { TransportKeeper } from './transport-keeper.ts';

/** The course of a client from its first connection to its end: connections that come and go, and the room that it is to be in. */
export class Session {
  readonly #parts: SessionParts;
  readonly #reconnector: Reconnector;
  readonly #keeper: TransportKeeper;
  #phase: Phase = { name: 'idle' };
  #wanted: WantedRoom | undefined;
  #resumption: Resumption | undefined;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#reconnector = new Reconnector(() => parts.getAddress(this.#resumption), {
      opening: () => {
        if (this.#phase.name === 'reconnecting') this.#changed();
        else this.#enter({ name: 'connecting' });
      },
      up: (connection, welcome) => this.#welcomed(connection, welcome),
      received: (connection, message) => this.#received(connection, message),
      down: (pause) => this.#lost(pause),
      ended: (reason) => this.#end(reason),
    });
    this.#keeper = new TransportKeeper({
      chooser: parts.chooser,
      room: () => (this.#phase.name === 'in_room' ? this.#phase.room : undefined),
      lobby: () => (this.#phase.name === 'lobby' ? this.#phase.connection : undefined),
      changed: this.#changed,
    });
  }

  get phase(): Phase {
    return this.#phase;
  }

  /** The room that is open. */
  get room(): Room | undefined {
    return roomOf(this.#phase);
  }

  /** Connects, for the first time. */
  open(): void {
    this.#keeper.start();
    this.#reconnector.open();
  }

  /**
   * Joins a room from the lobby or another room, or over the next connection. Resolves when the audio is open in both directions.
   * @throws {RequestError}
   * @throws {ClosedError}
   */
  join(from: JoinablePhase, room: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const wanted = { room, hasJoined: false, failing: undefined, resolve, reject };
      if (from.name !== 'reconnecting') {
        void this.#join(from.connection, wanted, from.name === 'in_room' ? from : undefined);
        return;
      }
      this.#forget(moved());
      this.#wanted = wanted;
      this.#enter({ name: from.name, pause: from.pause, wanted });
    });
  }

  /** Returns to the lobby. Resolves when the gateway has answered. */
  async leave(): Promise<void> {
    this.#forget(new RequestError('left', 'The room was left.', false));
    const phase = this.#phase;
    if (phase.name === 'reconnecting') {
      this.#enter({ name: phase.name, pause: phase.pause });
    } else if (phase.name === 'in_room' || phase.name === 'joining') {
      const { connection } = phase;
      this.#enter({ name: 'lobby', connection });
      if (phase.name === 'joining' && !phase.isAsked) return;
      await leavePlace(connection);
    }
  }

  /** Has a setting take effect. A request that fails because the room is joined again meanwhile is repeated there. */
  async tell(change: (room: Room) => Promise<void>): Promise<void> {
    const { room } = this;
    if (!room) return;
    try {
      await change(room);
    } catch (error) {
      if (room === this.room) throw error;
    }
  }

  close(): void {
    this.#reconnector.close();
    this.#end(CLOSED_HERE);
  }

  /**
   * Changes the phase; called for every change. A room that is not in the next phase is closed.
   * @param fault reason of the change, told before it
   */
  #enter(next: Phase, fault?: string): void {
    if (this.#phase.name === 'closed') return; // by a listener, in the middle of another change
    const room = roomOf(this.#phase);
    this.#phase = next;
    if (room !== roomOf(next)) room?.close();
    if (fault !== undefined) this.#fault(fault);
    if (this.#phase === next) this.#changed(); // otherwise a listener has changed it again
  }

  readonly #changed = (): void => this.#parts.handlers.changed();
  readonly #fault = (message: string): void => this.#parts.handlers.fault(message);

  #end(reason: CloseReason): void {
    if (this.#phase.name === 'closed') return;
    this.#keeper.stop();
    this.#forget(new ClosedError(reason));
    this.#enter({ name: 'closed', reason });
  }

  #forget(error: Error): void {
    this.#wanted?.reject(error); // nothing to a join() that has ended
    this.#wanted = undefined;
  }

  #lost(pause: Pause): void {
    const phase = this.#phase;
    if (this.#wanted) noteLost(this.#wanted, pause);
    let kept = phase.name === 'reconnecting' ? phase.kept : undefined;
    if (phase.name === 'in_room' && phase.room.isReady && phase.room.suspend()) kept = phase.room;
    this.#enter({ name: 'reconnecting', pause, wanted: this.#wanted, kept });
  }

  #welcomed(connection: Connection, welcome: MessageOf<'welcome'>): void {
    const { session_id, resume_token, room, resumed, network, mute } = welcome;
    this.#parts.chooser.onNetwork(network, performance.now());
    if (this.#wanted) noteBack(this.#wanted);
    if (!resumed) Object.assign(this.#parts.settings, UNTOLD);
    else if (mute !== undefined) this.#hearMute(mute);
    this.#resumption = { session_id, resume_token };
    if (room !== LOBBY) return; // we are where we were, and `joined` tells what is there
    // This node may be taking the place over from another one: to leave it could lose it.
    const there = resumed ? this.room?.transportThere : undefined;
    if (there === 'websocket') this.#parts.chooser.startWith(there); // or #join() would leave it
    if (this.#wanted) void this.#join(connection, this.#wanted, undefined, there);
    else this.#enter({ name: 'lobby', connection });
  }

  /** Continues with the place that the gateway kept, unless another room is wanted or its audio is gone. */
  #resumed(connection: Connection, joined: MessageOf<'joined'>): void {
    const phase = this.#phase;
    if (phase.name === 'joining') return; // taken to its room by another node, and asks for it anyway
    const kept = phase.name === 'reconnecting' ? phase.kept : undefined;
    // A listener that is told of the resume may leave the room, and its audio may be lost.
    const room = kept?.resume(connection, joined) && kept === this.room ? kept : undefined;
    const wanted = this.#wanted;
    if (room && wanted) {
      this.#enter({ name: 'in_room', connection, room, wanted });
    } else if (wanted) {
      const there = joined.consumers ? 'webrtc' : 'websocket';
      const isThere = joined.room === wanted.room;
      void this.#join(connection, wanted, undefined, isThere ? there : undefined);
    } else {
      this.#enter({ name: 'lobby', connection });
      leaveQuietly(connection);
    }
  }

  #received(connection: Connection, message: ServerMessage): void {
    // An `error` that answers nothing is a notice; only a refusal to publish is reported.
    const phase = this.#phase;
    const isHere = phase.name === 'in_room'; // then `joined` stands for events that were not sent
    if (message.type === 'joined' && !isHere) return this.#resumed(connection, message); // answers no request
    roomOf(phase)?.receive(message);
    if (message.type === 'configured' || message.type === 'media_changed') {
      this.#hearMute(message.mute);
    }
    if (message.type === 'media_restarted' && phase.name !== 'in_room') this.#lostBefore();
    if (phase.name !== 'in_room') return;
    if (message.type === 'media_restarted') this.#joinAgain(phase);
    if (message.type === 'left') {
      this.#forget(new RequestError('left', 'The gateway removed you from the room.', false));
      const fault = `The gateway removed you from the room (${message.reason}).`;
      this.#enter({ name: 'lobby', connection }, fault);
    }
  }

  /** Applies a mute that the gateway sent unasked. */
  #hearMute(isMuted: boolean): void {
    if (!hearMute(this.#parts.settings, isMuted)) return;
    this.tell((room) => room.apply((audio) => audio.applyMuted())).catch((error: Error) =>
      this.#fault(error.message),
    );
    this.#changed();
  }

  /** Joins again, because the audio is lost, and new transports may find a path. */
  #mediaLost(reason: string): void {
    this.#fault(reason);
    const phase = this.#phase;
    if (phase.name === 'in_room') this.#joinAgain(phase);
    else if (phase.name === 'reconnecting') this.#enter({ ...phase, kept: undefined });
    else this.#lostBefore();
  }

  /** Notes that the room that the client moves away from has lost its audio: if the move fails, it is joined again. */
  #lostBefore(): void {
    if (this.#phase.name === 'joining' && this.#phase.from) this.#phase.from.isLost = true;
  }

  /** Joins a room again, because its audio is lost. */
  #joinAgain({ connection, room, wanted }: InRoom): void {
    void this.#join(connection, wanted, undefined, room.transportThere);
  }

  /**
   * Asks for a room, and opens its audio.
   * @param from room that the client moves away from
   * @param there transport by which the gateway may have the client in the wanted room already
   */
  async #join(
    connection: Connection,
    wanted: WantedRoom,
    from?: InRoom,
    there?: Transport,
  ): Promise<void> {
    if (from) from.wanted.reject(moved());
    this.#wanted = wanted;
    const isAsked = this.#phase.name !== 'lobby';
    const before = from && { from };
    const joining: Joining = { name: 'joining', connection, wanted, isAsked, ...before };
    this.#enter(joining);
    let room: Room | undefined;
    // Any other phase meanwhile (left, closed, lost) has dealt with the wanted room, too.
    const isStale = () => (room ? room !== roomOf(this.#phase) : joining !== this.#phase);
    try {
      const transport = this.#parts.chooser.present;
      const openAudio = await loadAudio(transport);
      if (isStale()) return;
      joining.isAsked = true;
      // Otherwise the gateway begins a change, and sends nothing until it hears the client there.
      if (there === 'websocket' && transport === 'webrtc') leaveQuietly(connection);
      const joined = await askForPlace(connection.request, wanted.room, transport);
      if (isStale()) return;
      room = this.#openRoom(connection, joined, openAudio);
      this.#enter({ name: 'in_room', connection, room, wanted });
      await room.open();
      if (isStale()) return;
      noteJoined(wanted);
    } catch (thrown) {
      if (isStale()) return;
      if (this.#wanted !== wanted) return this.#lostBefore(); // another room is being joined
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      const isOurs = !(error instanceof RequestError);
      if (isOurs && this.#parts.chooser.giveUpPresent(performance.now())) {
        void this.#join(connection, wanted, room ? undefined : from, room?.transportThere ?? there);
        return;
      }
      this.#joinFailed(connection, wanted, error, room ? undefined : from);
    }
  }

  #openRoom(connection: Connection, joined: Joined, openAudio: OpenAudio): Room {
    const flowChanged = () => void this.#keeper.look();
    const mediaLost = (reason: string) => this.#mediaLost(reason);
    const handlers = { ...this.#parts.handlers, flowChanged, mediaLost };
    return new Room({ ...this.#parts, connection, joined, openAudio, handlers });
  }

  #joinFailed(connection: Connection, wanted: WantedRoom, error: Error, from?: InRoom): void {
    if (isRepeated(wanted, error)) {
      connection.fail(error.message); // and join it again over the next
      return;
    }
    wanted.reject(error);
    if (from?.isLost) return this.#joinAgain(from);
    this.#wanted = from?.wanted;
    if (!from) leaveQuietly(connection);
    this.#enter(from ?? { name: 'lobby', connection }, faultOf(wanted, error));
  }
}
