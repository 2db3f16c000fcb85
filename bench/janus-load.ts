import { fillRooms, type Place } from './client.ts';
import { JanusPeer } from './janus-peer.ts';
import type { JanusProcess } from './janus-process.ts';
import type { Traffic } from './load.ts';
import { FRAME_MS, Pacing } from './pacing.ts';
import type { Scenario } from './scenario.ts';
import { WindowCounter } from './window-counter.ts';

/**
 * The participants of one scenario in Janus's rooms: they send and receive plain RTP, at the pace of the
 * gateway's clients (`Load`).
 */
export class JanusLoad {
  readonly #scenario: Scenario;
  readonly #packets: Buffer[];
  readonly #peers: JanusPeer[] = [];
  readonly #pacing = new Pacing();
  readonly #tally = new WindowCounter();

  private constructor(scenario: Scenario, packets: Buffer[]) {
    this.#scenario = scenario;
    this.#packets = packets;
  }

  /** Opens the rooms and takes all participants into them; resolves when all are in. */
  static async connect(
    scenario: Scenario,
    packets: Buffer[],
    janus: JanusProcess,
  ): Promise<JanusLoad> {
    const load = new JanusLoad(scenario, packets);
    try {
      await janus.openRooms(scenario.rooms);
      await fillRooms(scenario, (place) => load.#add(place, janus));
    } catch (fault) {
      load.close();
      throw fault;
    }
    return load;
  }

  speak(): void {
    this.#pacing.start();
  }

  beginWindow(): void {
    this.#pacing.isCounting = true;
    this.#tally.open();
  }

  endWindow(): void {
    this.#pacing.isCounting = false;
    this.#tally.close();
  }

  hush(): void {
    this.#pacing.stop();
  }

  traffic(): Traffic {
    const { sent, received, receivedBytes, ms } = this.#tally;
    const due = Math.floor(ms / FRAME_MS) * this.#peers.length;
    return {
      seconds: ms / 1000,
      framesIn: sent,
      framesOut: received,
      bytesOut: receivedBytes,
      lost: Math.max(0, due - received),
      endToEnd: undefined,
      sentLateP99Ms: this.#pacing.lateP99Ms,
    };
  }

  close(): void {
    this.hush();
    for (const peer of this.#peers) peer.close();
    this.#peers.length = 0;
  }

  async #add(place: Place, janus: JanusProcess): Promise<void> {
    const peer = await JanusPeer.join(janus, place, ({ length }) =>
      this.#tally.countReceived(length),
    );
    this.#peers.push(peer);
    const { rooms, speakers } = this.#scenario;
    const index = place.room * speakers + place.peer;
    const sendNext = this.#speakerOn(peer, index / (rooms * speakers));
    if (place.peer < speakers) this.#pacing.add(index, sendNext);
    // Janus sends nothing to a participant that has not sent a packet.
    else sendNext();
  }

  /** @param start position at which the peer begins, as a share of the packets; 1 and more wrap around */
  #speakerOn(peer: JanusPeer, start: number): () => void {
    let next = Math.floor(start * this.#packets.length);
    return () => {
      peer.send(this.#packets[next % this.#packets.length]!);
      next += 1;
      this.#tally.countSent();
    };
  }
}
