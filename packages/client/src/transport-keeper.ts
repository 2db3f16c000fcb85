import type { Connection } from './connection.ts';
import { RequestError } from './errors.ts';
import { loadAudio } from './load-audio.ts';
import { LobbyWatch } from './lobby-watch.ts';
import { repeat } from './repeat.ts';
import type { Room } from './room.ts';
import type { Transport } from './state.ts';
import type { ChangeFault, TransportChooser } from './transport-chooser.ts';

/** Interval at which the state of the audio is checked, ms. */
const LOOK_EVERY_MS = 250;
/** Codes of a change whose room was left meanwhile, or whose connection was lost. */
const INTERRUPTED_CODES: ReadonlySet<string> = new Set([
  'left',
  'disconnected',
  'timeout',
  'moved',
]);

type TransportKeeperParts = {
  chooser: TransportChooser;
  /** The room that is open, while there is a connection to it. */
  room: () => Room | undefined;
  /** The connection, while the client is in the lobby. */
  lobby: () => Connection | undefined;
  /** Called when the transport has changed. */
  changed: () => void;
};

/**
 * Checks the health of a room's audio at intervals, and changes the transport if audio does not flow or the preferred transport may work
 * again. In the lobby it only checks the connection.
 */
export class TransportKeeper {
  readonly #parts: TransportKeeperParts;
  readonly #lobby = new LobbyWatch();
  #stopLooking: (() => void) | undefined;
  /** Room whose health is being asked for; another room need not wait for its answer. */
  #looked: Room | undefined;
  #isChanging = false;

  constructor(parts: TransportKeeperParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#stopLooking = repeat(LOOK_EVERY_MS, () => {
      this.#lobby.look(this.#parts.lobby(), performance.now());
      void this.look();
    });
  }

  stop(): void {
    this.#stopLooking?.();
  }

  /** Checks now instead of at the next interval. Never rejects. */
  async look(): Promise<void> {
    const { chooser } = this.#parts;
    const room = this.#parts.room();
    if (!room || room === this.#looked) return;
    this.#looked = room;
    try {
      const health = await room.health(performance.now());
      const isStill = room === this.#parts.room() && !this.#isChanging;
      // A change is asked for over the WebSocket. If its answer is lost, the room cannot go on.
      const mayChange = isStill && room.isReady && !room.isAsking;
      const transport = mayChange ? chooser.next(health, performance.now()) : undefined;
      if (transport) void this.#change(room, transport);
    } finally {
      if (this.#looked === room) this.#looked = undefined;
    }
  }

  async #change(room: Room, transport: Transport): Promise<void> {
    const { chooser } = this.#parts;
    this.#isChanging = true;
    try {
      const openAudio = await loadAudio(transport);
      if (room !== this.#parts.room()) return; // it was left, or is out of reach
      await room.change(transport, openAudio);
      chooser.changed(transport, performance.now());
      this.#parts.changed();
    } catch (error) {
      // The old transport stays in use; `trouble` tells if it does not carry audio.
      chooser.failed(transport, performance.now(), faultOf(error));
    } finally {
      this.#isChanging = false;
    }
  }
}

function faultOf(error: unknown): ChangeFault {
  const code = error instanceof RequestError ? error.code : '';
  if (code === 'no_path') return 'no_path';
  return INTERRUPTED_CODES.has(code) ? 'interrupted' : 'refused';
}
