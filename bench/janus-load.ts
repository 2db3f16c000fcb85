import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { writeRtpPacket } from '../src/rtp/packet.ts';
import { Packetizer } from '../src/rtp/packetizer.ts';
import { fillRooms, type Place } from './client.ts';
import { JANUS_PAYLOAD_TYPE, type JanusProcess } from './janus-process.ts';
import type { Traffic } from './load.ts';
import { FRAME_MS, Pacing } from './pacing.ts';
import type { Scenario } from './scenario.ts';
import { Tally } from './tally.ts';

const FRAME_SAMPLES = 960;
const SOCKET_BUFFER_BYTES = 1 << 20;
const LEVEL_EXTENSION_ID = 1;
/** Janus is not told what the extension means, and mixes without it. */
const LEVEL_DBOV = 30;

/** The participants of one scenario in Janus's rooms: they send and take plain RTP, and pace themselves as our clients do. */
export class JanusLoad {
  readonly #scenario: Scenario;
  readonly #packets: Buffer[];
  readonly #sockets: Socket[] = [];
  readonly #pacing = new Pacing();
  readonly #tally = new Tally();

  private constructor(scenario: Scenario, packets: Buffer[]) {
    this.#scenario = scenario;
    this.#packets = packets;
  }

  /** Opens the rooms and takes everybody into them; resolves when all are there. */
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
    const due = Math.floor(ms / FRAME_MS) * this.#sockets.length;
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
    for (const socket of this.#sockets) socket.close();
    this.#sockets.length = 0;
  }

  async #add(place: Place, janus: JanusProcess): Promise<void> {
    const socket = createSocket({ type: 'udp4', recvBufferSize: SOCKET_BUFFER_BYTES });
    this.#sockets.push(socket);
    socket.on('message', (datagram) => this.#tally.countReceived(datagram.length));
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    const port = await janus.join(place, socket.address().port);
    socket.connect(port, '127.0.0.1');
    await once(socket, 'connect');
    const { rooms, speakers } = this.#scenario;
    const index = place.room * speakers + place.peer;
    const sendNext = this.#speakerOn(socket, index / (rooms * speakers));
    if (place.peer < speakers) this.#pacing.add(index, sendNext);
    // Janus sends nothing to who has not sent.
    else sendNext();
  }

  /** @param start where in the packets it begins: 0…1, or beyond for who sends but one */
  #speakerOn(socket: Socket, start: number): () => void {
    const packetizer = new Packetizer();
    const stream = {
      ssrc: this.#sockets.length,
      payloadType: JANUS_PAYLOAD_TYPE,
      levelExtensionId: LEVEL_EXTENSION_ID,
    };
    let next = Math.floor(start * this.#packets.length);
    return () => {
      const payload = this.#packets[next % this.#packets.length]!;
      next += 1;
      const packet = packetizer.packetize(payload, FRAME_SAMPLES, LEVEL_DBOV, 0);
      socket.send(writeRtpPacket(packet, stream));
      this.#tally.countSent();
    };
  }
}
