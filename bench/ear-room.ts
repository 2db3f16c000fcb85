import { seededRandom } from '../test/support/random.ts';
import { type Bursts, CYCLE_FRAMES, CYCLE_MS, findOnsets } from './burst.ts';
import type { Place } from './client.ts';
import { type Pacing, SLOTS } from './pacing.ts';

/** Number of rooms; speakers of different rooms send at different phases of the 20 ms. */
export const EAR_ROOMS = 5;
/** Maximum time by which a listener may receive a burst before its sending was noted, ms. */
const EARLY_MS = 5;
/** Length of a word of a speaker that pauses, packets; the burst is in the first. */
const WORD_PACKETS = 6;

/**
 * Manner in which a speaker sends. `bursts`: quiet talk with bursts in it, in turn with the other speakers;
 * `words`: only the bursts of such talk; `quiet`: talk without bursts.
 */
export type Manner = 'bursts' | 'words' | 'quiet';

/** A peer in a room. It sends packets of 20 ms, and leaves some out in a pause. */
export type Peer = { send(packet: Buffer, skippedPackets?: number): void; close(): void };

/** Takes a peer into its room; packets that it hears go to `onPacket`. */
export type Enter = (place: Place, onPacket: (packet: Buffer) => void) => Promise<Peer>;

export type EarSound = { one: Bursts; three: Bursts; quiet: Buffer[] };

/** Time at which a burst was sent, and its speaker, of any room. */
type Sent = { atMs: number; speaker: string };

/** Latency of a burst that was heard. */
export type EarLatency = { speaker: string; ms: number };

/** A room with speakers, and a listener. */
export class EarRoom {
  /** True while bursts that are sent are noted. */
  isCounting = false;
  /** Onsets, at the times at which they would be heard without any latency. */
  readonly sent: Sent[] = [];
  readonly #heard: { frame: Buffer; atMs: number }[] = [];
  readonly #peers: Peer[] = [];

  /** Takes all peers into room `number`; they speak when `pacing` starts. */
  static async open(
    manners: Manner[],
    number: number,
    sound: EarSound,
    pacing: Pacing,
    enter: Enter,
  ): Promise<EarRoom> {
    const room = new EarRoom();
    const random = seededRandom(number + 1);
    const inTurn = manners.filter((manner) => manner === 'bursts').length;
    const bursts = inTurn > 1 ? sound.three : sound.one;
    const startFrame = Math.round((number * CYCLE_FRAMES) / EAR_ROOMS);
    for (const [index, manner] of manners.entries()) {
      const speaker = await room.#enter(enter, { room: number, peer: index });
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
    await room.#enter(enter, { room: number, peer: manners.length }, hear);
    return room;
  }

  /** Returns the latency of each onset from sending to receipt; onsets that were not heard are left out. */
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
    for (const peer of this.#peers) peer.close();
  }

  async #enter(
    enter: Enter,
    place: Place,
    onPacket: (packet: Buffer) => void = () => {},
  ): Promise<Peer> {
    const peer = await enter(place, onPacket);
    this.#peers.push(peer);
    return peer;
  }

  #sendBurst(to: Peer, speaker: string, { packets, onset }: Bursts, at: number, manner: Manner) {
    const since = at - onset.frame;
    if (manner === 'words' && (since < 0 || since >= WORD_PACKETS)) return;
    if (this.isCounting && since === 0) {
      this.sent.push({ atMs: performance.now() + onset.offsetMs, speaker });
    }
    const isAfterPause = manner === 'words' && since === 0;
    to.send(packets[at]!, isAfterPause ? packets.length - WORD_PACKETS : 0);
  }
}
