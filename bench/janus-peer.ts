import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { writeRtpPacket } from '../src/rtp/packet.ts';
import { Packetizer } from '../src/rtp/packetizer.ts';
import type { Place } from './client.ts';
import { JANUS_PAYLOAD_TYPE, type JanusProcess } from './janus-process.ts';

const FRAME_SAMPLES = 960;
const SOCKET_BUFFER_BYTES = 1 << 20;
const LEVEL_EXTENSION_ID = 1;
/** RFC 6464 level of each packet. Janus is not configured to read it, and mixes without it. */
const AUDIO_LEVEL = 30;

/** A participant of a room of Janus, over plain RTP. */
export class JanusPeer {
  readonly #socket: Socket;
  readonly #packetizer = new Packetizer();
  readonly #stream: { ssrc: number; payloadType: number; levelExtensionId: number };

  private constructor(socket: Socket, ssrc: number) {
    this.#socket = socket;
    this.#stream = { ssrc, payloadType: JANUS_PAYLOAD_TYPE, levelExtensionId: LEVEL_EXTENSION_ID };
  }

  /**
   * Joins an open room. Janus sends to a participant only after its first packet.
   * @param onDatagram called with each RTP packet from Janus
   * @param prebufferPackets number of packets that Janus holds back, if not its default
   */
  static async join(
    janus: JanusProcess,
    place: Place,
    onDatagram: (datagram: Buffer) => void,
    prebufferPackets?: number,
  ): Promise<JanusPeer> {
    const socket = createSocket({ type: 'udp4', recvBufferSize: SOCKET_BUFFER_BYTES });
    try {
      socket.on('message', onDatagram);
      socket.bind(0, '127.0.0.1');
      await once(socket, 'listening');
      const port = await janus.join(place, socket.address().port, prebufferPackets);
      socket.connect(port, '127.0.0.1');
      await once(socket, 'connect');
      return new JanusPeer(socket, 1 + place.room * 1000 + place.peer);
    } catch (fault) {
      socket.close();
      throw fault;
    }
  }

  /**
   * Sends a packet of 20 ms.
   * @param skippedPackets number of packets of silence that were not sent before this one
   */
  send(payload: Buffer, skippedPackets = 0): void {
    const skippedSamples = skippedPackets * FRAME_SAMPLES;
    const packet = this.#packetizer.packetize(payload, FRAME_SAMPLES, AUDIO_LEVEL, skippedSamples);
    this.#socket.send(writeRtpPacket(packet, this.#stream));
  }

  close(): void {
    this.#socket.close();
  }
}
