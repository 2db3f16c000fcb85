import { createHistogram } from 'node:perf_hooks';
import type { WebSocket } from 'ws';
import { connectClient, fillRooms, type Place } from './client.ts';
import { FRAME_MS, Pacing } from './pacing.ts';
import { packetKey } from './packets.ts';
import { type Percentiles, percentilesOf } from './percentiles.ts';
import { hearers, isPassThrough, type Scenario } from './scenario.ts';
import { WindowCounter } from './window-counter.ts';

type Client = { receivedInWindow: number };
type Speaker = { socket: WebSocket; hearers: number; nextPacket: number };

/** Packets delivered in the windows, and their delays. */
export type Traffic = {
  seconds: number;
  /** Frames sent by the clients. */
  framesIn: number;
  /** Frames received by the clients. */
  framesOut: number;
  /** Bytes of the received frames. */
  bytesOut: number;
  /** Packets, or frames of mixes, that were not received. */
  lost: number;
  /** Time from one client's send to another's receipt; undefined if no packet is passed through. */
  endToEnd: Percentiles | undefined;
  /** Lateness of the generator itself, p99. */
  sentLateP99Ms: number;
};

/** The clients of one scenario: all in this process, paced by one timer. */
export class Load {
  readonly #scenario: Scenario;
  readonly #packets: Buffer[];
  readonly #sockets: WebSocket[] = [];
  readonly #clients: Client[] = [];
  readonly #pacing = new Pacing();
  readonly #tally = new WindowCounter();
  readonly #sentNs = new Map<string, bigint>();
  readonly #endToEnd = createHistogram();
  /** Deliveries since the start. */
  readonly #total = { expected: 0, received: 0 };
  #missing = 0;

  private constructor(scenario: Scenario, packets: Buffer[]) {
    this.#scenario = scenario;
    this.#packets = packets;
  }

  /** Connects all clients and joins them to their rooms; resolves when all have joined. */
  static async connect(
    scenario: Scenario,
    packets: Buffer[],
    address: (room: number, peer: number) => URL,
  ): Promise<Load> {
    const load = new Load(scenario, packets);
    try {
      await fillRooms(scenario, (place) => load.#add(place, address(place.room, place.peer)));
    } catch (fault) {
      load.close();
      throw fault;
    }
    return load;
  }

  /** Starts or resumes all speakers. */
  speak(): void {
    this.#pacing.start();
  }

  beginWindow(): void {
    for (const client of this.#clients) client.receivedInWindow = 0;
    this.#pacing.isCounting = true;
    this.#tally.open();
  }

  endWindow(): void {
    this.#pacing.isCounting = false;
    this.#missing += this.#missingIn(this.#tally.close());
  }

  /** Stops all speakers. */
  hush(): void {
    this.#pacing.stop();
  }

  /**
   * Returns the figures of the windows. To be called some time after {@link hush}: packets that are still on
   * their way count as lost.
   */
  traffic(): Traffic {
    const { sent, received, receivedBytes, ms } = this.#tally;
    return {
      seconds: ms / 1000,
      framesIn: sent,
      framesOut: received,
      bytesOut: receivedBytes,
      lost: this.#missing + this.#unheard(),
      endToEnd: isPassThrough(this.#scenario) ? percentilesOf(this.#endToEnd) : undefined,
      sentLateP99Ms: this.#pacing.lateP99Ms,
    };
  }

  close(): void {
    this.hush();
    for (const socket of this.#sockets) socket.terminate();
  }

  async #add({ room, peer }: Place, address: URL): Promise<void> {
    const client: Client = { receivedInWindow: 0 };
    const socket = await connectClient(address, (frame) => this.#receive(client, frame));
    this.#clients.push(client);
    this.#sockets.push(socket);
    if (peer < this.#scenario.speakers) this.#addSpeaker(room, peer, socket);
  }

  /** Adds a speaker. Speakers start at evenly spaced packets, and at evenly spaced moments of the 20 ms unless they send in step. */
  #addSpeaker(room: number, peer: number, socket: WebSocket): void {
    const { rooms, speakers, isInStep } = this.#scenario;
    const index = room * speakers + peer;
    const speaker: Speaker = {
      socket,
      hearers: hearers(this.#scenario)[peer]!.length,
      nextPacket: Math.floor((index * this.#packets.length) / (rooms * speakers)),
    };
    this.#pacing.add(isInStep ? 0 : index, () => this.#send(speaker));
  }

  #receive(client: Client, frame: Buffer): void {
    client.receivedInWindow += 1;
    this.#total.received += 1;
    this.#tally.countReceived(frame.length);
    if (!this.#tally.isOpen) return;
    const key = packetKey(frame);
    const sentNs = key && this.#sentNs.get(key);
    if (sentNs) this.#endToEnd.record(process.hrtime.bigint() - sentNs);
  }

  #send(speaker: Speaker): void {
    const packet = this.#packets[speaker.nextPacket]!;
    speaker.nextPacket = (speaker.nextPacket + 1) % this.#packets.length;
    const key = packetKey(packet);
    if (key) this.#sentNs.set(key, process.hrtime.bigint());
    speaker.socket.send(packet, { binary: true, compress: false });
    this.#tally.countSent();
    this.#total.expected += speaker.hearers;
  }

  /** Returns the number of deliveries that are missing; 0 if frames are mixed, and cannot be told apart. */
  #unheard(): number {
    return isPassThrough(this.#scenario) ? this.#total.expected - this.#total.received : 0;
  }

  /**
   * Returns the number of frames that mixes should have made by their clock and that did not come. One may
   * come late at each edge of the window; with pauses the number is unknown, and 0 is returned.
   */
  #missingIn(windowMs: number): number {
    const { speakers, hasPauses } = this.#scenario;
    if (speakers === 0 || hasPauses || isPassThrough(this.#scenario)) return 0;
    const due = Math.floor(windowMs / FRAME_MS) - 2;
    return this.#clients.reduce(
      (sum, { receivedInWindow }) => sum + Math.max(0, due - receivedInWindow),
      0,
    );
  }
}
