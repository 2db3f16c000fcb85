import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { Consumer, PlainTransport, Producer, Router } from 'mediasoup/types';
import { isRtcp, readSsrc } from '../rtp/packet.ts';

const LOOPBACK = '127.0.0.1';
const AUDIO_LEVEL_URI = 'urn:ietf:params:rtp-hdrext:ssrc-audio-level';
const AUDIO_LEVEL_ID = 1;
const PAYLOAD_TYPE = 100;
/** Room for a second of a hundred speakers, should either process be held up. */
const SOCKET_BUFFER_BYTES = 1 << 20;
/** Below the range from which the kernel hands out ports, where the WebRtcServers' could be taken by chance. */
const PORT_RANGE = { min: 10000, max: 19999 };

/** A producer that is fed by plain RTP: what the packets must carry. */
export type PlainProducer = {
  id: string;
  ssrc: number;
  payloadType: number;
  levelExtensionId: number;
  /** Sends one RTP packet of this producer. */
  send(datagram: Buffer): void;
  close(): void;
};

/** What somebody says, as plain RTP. */
export type PlainConsumer = {
  /** The header extension id of the audio level in its packets. */
  levelExtensionId: number;
  close(): void;
};

/**
 * The WebSocket peers' side of a router: one PlainTransport and one connected UDP socket for all of them, told apart by
 * SSRC. Connected, the kernel lets nothing in but the media worker's packets.
 */
export class PlainLeg {
  readonly #transport: PlainTransport;
  readonly #socket: Socket;
  readonly #receivers = new Map<number, (datagram: Buffer) => void>();
  readonly #ssrcs = new Set<number>();
  #closed = false;

  private constructor(transport: PlainTransport, socket: Socket) {
    this.#transport = transport;
    this.#socket = socket;
    socket.on('message', (datagram) => this.#receive(datagram));
  }

  static async open(router: Router): Promise<PlainLeg> {
    const buffers = { recvBufferSize: SOCKET_BUFFER_BYTES, sendBufferSize: SOCKET_BUFFER_BYTES };
    const socket = createSocket({ type: 'udp4', ...buffers });
    try {
      const listening = once(socket, 'listening');
      socket.bind(0, LOOPBACK);
      await listening;
      const transport = await router.createPlainTransport({
        listenInfo: { protocol: 'udp', ip: LOOPBACK, portRange: PORT_RANGE, ...buffers },
        rtcpMux: true,
        comedia: false,
      });
      await transport.connect({ ip: LOOPBACK, port: socket.address().port });
      const connected = once(socket, 'connect');
      socket.connect(transport.tuple.localPort, LOOPBACK);
      await connected;
      // A send that the dying media worker no longer takes is reported here; its death is told by the router.
      socket.on('error', () => {});
      return new PlainLeg(transport, socket);
    } catch (fault) {
      socket.close();
      throw fault;
    }
  }

  /** Makes room for one more speaker. */
  async produce(): Promise<PlainProducer> {
    const ssrc = this.#newSsrc();
    this.#ssrcs.add(ssrc);
    let producer: Producer;
    try {
      producer = await this.#transport.produce({
        kind: 'audio',
        rtpParameters: {
          codecs: [
            {
              mimeType: 'audio/opus',
              payloadType: PAYLOAD_TYPE,
              clockRate: 48000,
              channels: 2,
              parameters: { useinbandfec: 1 },
            },
          ],
          headerExtensions: [{ uri: AUDIO_LEVEL_URI, id: AUDIO_LEVEL_ID }],
          encodings: [{ ssrc }],
        },
      });
    } catch (fault) {
      this.#ssrcs.delete(ssrc);
      throw fault;
    }
    return {
      id: producer.id,
      ssrc,
      payloadType: PAYLOAD_TYPE,
      levelExtensionId: AUDIO_LEVEL_ID,
      send: (datagram) => {
        if (!this.#closed) this.#socket.send(datagram);
      },
      close: () => {
        this.#ssrcs.delete(ssrc);
        producer.close();
      },
    };
  }

  /**
   * Listens to a producer of this router, whichever leg it came in by.
   * @param onDatagram takes each RTP packet of it
   */
  async consume(
    producerId: string,
    rtpCapabilities: Router['rtpCapabilities'],
    onDatagram: (datagram: Buffer) => void,
  ): Promise<PlainConsumer> {
    const consumer = await this.#transport.consume({ producerId, rtpCapabilities, paused: true });
    const ssrc = consumer.rtpParameters.encodings?.[0]?.ssrc;
    if (ssrc === undefined || this.#receivers.has(ssrc)) {
      consumer.close();
      throw new Error('the media worker gave a consumer no SSRC of its own');
    }
    this.#receivers.set(ssrc, onDatagram);
    const close = () => {
      this.#receivers.delete(ssrc);
      consumer.close();
    };
    consumer.observer.once('close', () => this.#receivers.delete(ssrc));
    try {
      await consumer.resume();
    } catch (fault) {
      close();
      throw fault;
    }
    return { levelExtensionId: levelExtensionIdOf(consumer), close };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#receivers.clear();
    this.#socket.close();
    this.#transport.close();
  }

  #receive(datagram: Buffer): void {
    if (datagram.length < 12 || isRtcp(datagram)) return;
    this.#receivers.get(readSsrc(datagram))?.(datagram);
  }

  /** mediasoup refuses an SSRC that is in use, and an SSRC of 0 means none. */
  #newSsrc(): number {
    for (;;) {
      const ssrc = 1 + Math.floor(Math.random() * 0xffff_fffe);
      if (!this.#ssrcs.has(ssrc)) return ssrc;
    }
  }
}

function levelExtensionIdOf(consumer: Consumer): number {
  const extensions = consumer.rtpParameters.headerExtensions ?? [];
  return extensions.find(({ uri }) => uri === AUDIO_LEVEL_URI)?.id ?? 0;
}
