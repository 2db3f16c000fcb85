import { once } from 'node:events';
import { createHistogram } from 'node:perf_hooks';
import { WebSocket } from 'ws';
import { packetKey } from './packets.ts';
import { type Percentiles, percentilesOf } from './percentiles.ts';
import { hearers, isPassThrough, type Scenario } from './scenario.ts';

const FRAME_MS = 20;
/** Each speaker has its slot of the 20 ms, so that they do not all speak at the same instant. */
const SLOT_MS = 2;
const SLOTS = FRAME_MS / SLOT_MS;
const CONNECT_AT_ONCE = 16;
const CONNECT_TIMEOUT_MS = 10_000;

type Client = { socket: WebSocket; receivedInWindow: number };
type Speaker = { socket: WebSocket; hearers: number; nextPacket: number };

/** What went through in the windows, and how. */
export type Traffic = {
  seconds: number;
  /** Binary frames that the clients sent. */
  framesIn: number;
  /** Binary frames that they received. */
  framesOut: number;
  lost: number;
  /** From a client's send to another's receipt; undefined where nothing is passed through. */
  endToEnd: Percentiles | undefined;
  /** How late the generator itself was. */
  sentLateP99Ms: number;
};

/** The clients of one scenario: all in this process, paced by one timer. */
export class Load {
  readonly #scenario: Scenario;
  readonly #packets: Buffer[];
  readonly #clients: Client[] = [];
  readonly #slots: Speaker[][] = Array.from({ length: SLOTS }, () => []);
  readonly #sentNs = new Map<string, bigint>();
  readonly #endToEnd = createHistogram();
  readonly #sentLate = createHistogram();
  /** Since the start. */
  readonly #total = { sent: 0, expected: 0, received: 0 };
  /** In the windows so far. */
  readonly #counted = { sent: 0, received: 0, ms: 0, missing: 0 };
  #windowStart = { sent: 0, received: 0, atMs: 0 };
  #isCounting = false;
  #startMs = 0;
  #nextSlot = 0;
  #timer: NodeJS.Timeout | undefined;

  private constructor(scenario: Scenario, packets: Buffer[]) {
    this.#scenario = scenario;
    this.#packets = packets;
  }

  /** Takes everybody into their rooms; resolves when all are there. */
  static async connect(
    scenario: Scenario,
    packets: Buffer[],
    address: (room: number, peer: number) => URL,
  ): Promise<Load> {
    const load = new Load(scenario, packets);
    const places = Array.from({ length: scenario.rooms * scenario.peers }, (_, index) => ({
      room: Math.floor(index / scenario.peers),
      peer: index % scenario.peers,
    }));
    const waiting = places.values();
    const connectRest = async () => {
      for (const { room, peer } of waiting) await load.#add(room, peer, address(room, peer));
    };
    try {
      await Promise.all(Array.from({ length: CONNECT_AT_ONCE }, connectRest));
    } catch (fault) {
      load.close();
      throw fault;
    }
    return load;
  }

  /** Everybody who speaks begins to, or goes on. */
  speak(): void {
    this.#startMs = performance.now();
    this.#nextSlot = 0;
    this.#tick();
  }

  beginWindow(): void {
    for (const client of this.#clients) client.receivedInWindow = 0;
    const { sent, received } = this.#total;
    this.#windowStart = { sent, received, atMs: performance.now() };
    this.#isCounting = true;
  }

  endWindow(): void {
    this.#isCounting = false;
    const { sent, received, atMs } = this.#windowStart;
    const windowMs = performance.now() - atMs;
    this.#counted.sent += this.#total.sent - sent;
    this.#counted.received += this.#total.received - received;
    this.#counted.ms += windowMs;
    this.#counted.missing += this.#missing(windowMs);
  }

  /** Everybody falls silent. */
  hush(): void {
    clearTimeout(this.#timer);
  }

  /** Ask when everybody has been silent for a while: what is still on its way counts as lost. */
  traffic(): Traffic {
    const { sent, received, ms, missing } = this.#counted;
    return {
      seconds: ms / 1000,
      framesIn: sent,
      framesOut: received,
      lost: missing + this.#unheard(),
      endToEnd: isPassThrough(this.#scenario) ? percentilesOf(this.#endToEnd) : undefined,
      sentLateP99Ms: percentilesOf(this.#sentLate)?.p99Ms ?? 0,
    };
  }

  close(): void {
    this.hush();
    for (const { socket } of this.#clients) socket.terminate();
  }

  async #add(room: number, peer: number, address: URL): Promise<void> {
    const socket = new WebSocket(address, { perMessageDeflate: false, skipUTF8Validation: true });
    const client: Client = { socket, receivedInWindow: 0 };
    this.#clients.push(client);
    const joined = new Promise<void>((resolve) => {
      socket.on('message', (data: Buffer, isBinary: boolean) => {
        if (isBinary) this.#receive(client, data);
        else if (data.includes('"type":"joined"')) resolve();
      });
    });
    const refused = once(socket, 'close').then(([code]) => {
      throw new Error(`a client was refused with ${String(code)}`);
    });
    // A client that closes later is missed by what it does not hear.
    refused.catch(() => {});
    socket.on('error', () => {});
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      const fail = () => reject(new Error('a client did not get into its room'));
      timer = setTimeout(fail, CONNECT_TIMEOUT_MS);
    });
    await Promise.race([joined, refused, late]).finally(() => clearTimeout(timer));
    if (peer < this.#scenario.speakers) this.#addSpeaker(room, peer, socket);
  }

  /** Speakers are spread evenly over the slots and over the packets. */
  #addSpeaker(room: number, peer: number, socket: WebSocket): void {
    const { rooms, speakers } = this.#scenario;
    const index = room * speakers + peer;
    this.#slots[index % SLOTS]!.push({
      socket,
      hearers: hearers(this.#scenario)[peer]!.length,
      nextPacket: Math.floor((index * this.#packets.length) / (rooms * speakers)),
    });
  }

  #receive(client: Client, frame: Buffer): void {
    client.receivedInWindow += 1;
    this.#total.received += 1;
    if (!this.#isCounting) return;
    const key = packetKey(frame);
    const sentNs = key && this.#sentNs.get(key);
    if (sentNs) this.#endToEnd.record(process.hrtime.bigint() - sentNs);
  }

  readonly #tick = (): void => {
    for (;;) {
      const lateMs = performance.now() - this.#startMs - this.#nextSlot * SLOT_MS;
      if (lateMs < 0) break;
      if (this.#isCounting) this.#sentLate.record(Math.max(1, Math.round(lateMs * 1e6)));
      for (const speaker of this.#slots[this.#nextSlot % SLOTS]!) this.#send(speaker);
      this.#nextSlot += 1;
    }
    const nextMs = this.#startMs + this.#nextSlot * SLOT_MS;
    this.#timer = setTimeout(this.#tick, Math.max(0, nextMs - performance.now()));
  };

  #send(speaker: Speaker): void {
    const packet = this.#packets[speaker.nextPacket]!;
    speaker.nextPacket = (speaker.nextPacket + 1) % this.#packets.length;
    this.#sentNs.set(packetKey(packet)!, process.hrtime.bigint());
    speaker.socket.send(packet, { binary: true, compress: false });
    this.#total.sent += 1;
    this.#total.expected += speaker.hearers;
  }

  /** Packets sent that somebody did not hear; 0 where frames are mixed, and cannot be told apart. */
  #unheard(): number {
    return isPassThrough(this.#scenario) ? this.#total.expected - this.#total.received : 0;
  }

  /** Frames that a mix should have made by its clock; one may come late at each edge of the window. */
  #missing(windowMs: number): number {
    const { speakers } = this.#scenario;
    if (speakers === 0 || isPassThrough(this.#scenario)) return 0;
    const due = Math.floor(windowMs / FRAME_MS) - 2;
    return this.#clients.reduce(
      (sum, { receivedInWindow }) => sum + Math.max(0, due - receivedInWindow),
      0,
    );
  }
}
