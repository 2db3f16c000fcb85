import type { WebSocket } from 'ws';
import { seededRandom } from '../test/support/random.ts';
import { type Bursts, CYCLE_FRAMES, CYCLE_MS, findOnsets } from './burst.ts';
import { connectClient } from './client.ts';
import { type Pacing, SLOTS } from './pacing.ts';

/** Number of rooms, in each of which speakers send at other phases of the 20 ms. */
export const EAR_ROOMS = 5;
/** Most by which a listener may hear a burst before its sending was noted. */
const EARLY_MS = 5;
/** Length of the word of a speaker that pauses, in packets; the first holds the burst. */
const WORD_PACKETS = 6;

/**
 * How one speaker sends: `bursts` is quiet talk with bursts in it, in turn with the others; `words` the same, of which only bursts are
 * sent; `quiet` has none.
 */
export type Manner = 'bursts' | 'words' | 'quiet';

export type EarSound = { one: Bursts; three: Bursts; quiet: Buffer[] };

/** The moment at which a burst was sent, and the speaker that sent it, of any room. */
type Sent = { atMs: number; speaker: string };

/** A burst that was heard. */
export type EarLatency = { speaker: string; ms: number };

/** A room with speakers, and a listener. */
export class EarRoom {
  /** Notes what is sent while this is set. */
  isCounting = false;
  /** When each onset would have been heard without any delay. */
  readonly sent: Sent[] = [];
  readonly #heard: { frame: Buffer; atMs: number }[] = [];
  readonly #sockets: WebSocket[] = [];

  /** Takes everybody into room `number`; they speak when `pacing` starts. @param address of a peer of the room */
  static async open(
    manners: Manner[],
    number: number,
    sound: EarSound,
    pacing: Pacing,
    address: (peer: number) => URL,
  ): Promise<EarRoom> {
    const room = new EarRoom();
    const random = seededRandom(number + 1);
    const inTurn = manners.filter((manner) => manner === 'bursts').length;
    const bursts = inTurn > 1 ? sound.three : sound.one;
    const startFrame = Math.round((number * CYCLE_FRAMES) / EAR_ROOMS);
    for (const [index, manner] of manners.entries()) {
      const speaker = await room.#enter(address(index));
      const slot = Math.floor(random() * SLOTS);
      let frame = startFrame + index * CYCLE_FRAMES;
      const name = `${number}/${index}`;
      pacing.add(slot, () => {
        if (manner === 'quiet') speaker.send(sound.quiet[frame % sound.quiet.length]!);
        else room.#sendBurst(speaker, name, bursts, frame % bursts.packets.length, manner);
        frame += 1;
      });
    }
    const hear = (bytes: Buffer) => room.#heard.push({ frame: bytes, atMs: performance.now() });
    await room.#enter(address(manners.length), hear);
    return room;
  }

  /** From each onset's sending to its receipt; onsets that were not heard are left out. */
  async latencies(): Promise<EarLatency[]> {
    const onsets = await findOnsets(this.#heard.map(({ frame }) => frame));
    const heardMs = onsets.map(({ frame, offsetMs }) => this.#heard[frame]!.atMs + offsetMs);
    return this.sent.flatMap(({ atMs, speaker }) => {
      const found = heardMs.find(
        (heard) => heard > atMs - EARLY_MS && heard < atMs + CYCLE_MS - EARLY_MS,
      );
      return found === undefined ? [] : [{ speaker, ms: found - atMs }];
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

  #sendBurst(
    to: WebSocket,
    speaker: string,
    { packets, onset }: Bursts,
    at: number,
    manner: Manner,
  ) {
    const since = at - onset.frame;
    if (manner === 'words' && (since < 0 || since >= WORD_PACKETS)) return;
    if (this.isCounting && since === 0) {
      this.sent.push({ atMs: performance.now() + onset.offsetMs, speaker });
    }
    to.send(packets[at]!);
  }
}
