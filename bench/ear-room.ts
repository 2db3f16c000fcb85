import type { WebSocket } from 'ws';
import { CYCLE_FRAMES, CYCLE_MS, type encodeBurst, findOnsets, type Onset } from './burst.ts';
import { connectClient } from './client.ts';
import type { Pacing } from './pacing.ts';

/** Number of rooms, in each of which a speaker bursts out at another phase of the 20 ms. */
export const EAR_ROOMS = 5;
const PHASE_SLOTS = 2;
/** When others talk quietly: so many slots after who bursts out. */
const QUIET_SLOTS = [3, 7];
/** A listener may hear a burst so much before we noted that it was sent. */
const EARLY_MS = 5;

export type EarSound = { burst: Awaited<ReturnType<typeof encodeBurst>>; quiet: Buffer[] };

/** A room with a speaker that bursts out, up to two that talk quietly all the time, and a listener. */
export class EarRoom {
  /** Notes what is sent while this is set. */
  isCounting = false;
  /** When each onset would have been heard without any delay. */
  readonly sentMs: number[] = [];
  readonly #heard: { frame: Buffer; atMs: number }[] = [];
  readonly #sockets: WebSocket[] = [];

  /** Takes everybody into room `number`; they speak when `pacing` starts. @param address of a peer of the room */
  static async open(
    quietSpeakers: number,
    number: number,
    { burst, quiet }: EarSound,
    pacing: Pacing,
    address: (peer: number) => URL,
  ): Promise<EarRoom> {
    const room = new EarRoom();
    const slot = number * PHASE_SLOTS;
    const mouth = await room.#enter(address(0));
    let frame = number * (CYCLE_FRAMES / EAR_ROOMS);
    pacing.add(slot, () => {
      room.#noteOnset(frame % CYCLE_FRAMES, burst.onset);
      mouth.send(burst.packets[frame % CYCLE_FRAMES]!);
      frame += 1;
    });
    const quietSlots = QUIET_SLOTS.slice(0, quietSpeakers);
    for (const [index, slotsLater] of quietSlots.entries()) {
      const other = await room.#enter(address(1 + index));
      let next = index * 100;
      pacing.add(slot + slotsLater, () => {
        other.send(quiet[next % quiet.length]!);
        next += 1;
      });
    }
    const hear = (bytes: Buffer) => room.#heard.push({ frame: bytes, atMs: performance.now() });
    await room.#enter(address(1 + quietSpeakers), hear);
    return room;
  }

  /** From each onset's sending to its receipt; onsets that were not heard are left out. */
  async latenciesMs(): Promise<number[]> {
    const onsets = await findOnsets(this.#heard.map(({ frame }) => frame));
    const heardMs = onsets.map(({ frame, offsetMs }) => this.#heard[frame]!.atMs + offsetMs);
    return this.sentMs.flatMap((sentMs) => {
      const found = heardMs.find(
        (atMs) => atMs > sentMs - EARLY_MS && atMs < sentMs + CYCLE_MS - EARLY_MS,
      );
      return found === undefined ? [] : [found - sentMs];
    });
  }

  close(): void {
    for (const socket of this.#sockets) socket.terminate();
  }

  async #enter(address: URL, onFrame: (frame: Buffer) => void = () => {}): Promise<WebSocket> {
    const socket = await connectClient(address, onFrame);
    this.#sockets.push(socket);
    return socket;
  }

  #noteOnset(frame: number, onset: Onset): void {
    if (this.isCounting && frame === onset.frame) {
      this.sentMs.push(performance.now() + onset.offsetMs);
    }
  }
}
