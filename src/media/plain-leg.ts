import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { Consumer, PlainTransport, Producer, Router } from 'mediasoup/types';
import { isRtcp, readSsrc } from '../rtp/packet.ts';
import { LOOPBACK, LOOPBACK_LISTEN_INFO, SOCKET_BUFFERS } from './loopback.ts';
import type { Publish } from './pipe.ts';

const AUDIO_LEVEL_URI = 'urn:ietf:params:rtp-hdrext:ssrc-audio-level';
const AUDIO_LEVEL_ID = 1;
const PAYLOAD_TYPE = 100;

/** A producer that is fed with plain RTP, and the fields that its packets must carry. */
export type PlainProducer = {
  id: string;
  ssrc: number;
  payloadType: number;
  levelExtensionId: number;
  /** Sends one RTP packet of this producer. */
  send(datagram: Buffer): void;
  close(): void;
};

/** Audio of one speaker as plain RTP. */
export type PlainConsumer = { close(): void };

/** Takes one RTP packet; `levelExtensionId` is the header extension id of the audio level in it, 0 if it has none. */
type OnDatagram = (datagram: Buffer, levelExtensionId: number) => void;

/**
 * This process's side of a router: one PlainTransport and one connected UDP socket for all WebSocket peers of a room, or for
 * the feeds of all WHEP players of a listening router, distinguished by SSRC. Because the socket is connected, the kernel accepts only packets of the media worker.
 */
export class PlainLeg {
  readonly #transport: PlainTransport;
  readonly #socket: Socket;
  readonly #publish: Publish;
  readonly #receivers = new Map<number, (datagram: Buffer) => void>();
  readonly #ssrcs = new Set<number>();
  #closed = false;

  private constructor(transport: PlainTransport, socket: Socket, publish: Publish) {
    this.#transport = transport;
    this.#socket = socket;
    this.#publish = publish;
    socket.on('message', (datagram) => this.#receive(datagram));
  }

  /** @param publish called with each producer before any other listener */
  static async open(router: Router, publish: Publish): Promise<PlainLeg> {
    const socket = createSocket({ type: 'udp4', ...SOCKET_BUFFERS });
    try {
      const listening = once(socket, 'listening');
      socket.bind(0, LOOPBACK);
      await listening;
      const transport = await router.createPlainTransport({
        listenInfo: LOOPBACK_LISTEN_INFO,
        rtcpMux: true,
        comedia: false,
      });
      await transport.connect({ ip: LOOPBACK, port: socket.address().port });
      const connected = once(socket, 'connect');
      socket.connect(transport.tuple.localPort, LOOPBACK);
      await connected;
      // A send that a dying media worker does not accept is reported here; the router reports its
      // death.
      socket.on('error', () => {});
      return new PlainLeg(transport, socket, publish);
    } catch (fault) {
      socket.close();
      throw fault;
    }
  }

  /** True once it was closed, by its owner or because its media worker died. */
  get isClosed(): boolean {
    return this.#closed;
  }

  /** Creates a producer for one more speaker. @throws {Error} if the leg closes meanwhile */
  async produce(): Promise<PlainProducer> {
    const ssrc = this.#newSsrc();
    this.#ssrcs.add(ssrc);
    let producer: Producer | undefined;
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
      await this.#publish(producer);
      // Publishing does not fail when another media worker of the room dies, which closes this leg,
      // too.
      if (this.#closed || producer.closed) throw new Error('the leg was closed meanwhile');
    } catch (fault) {
      this.#ssrcs.delete(ssrc);
      producer?.close();
      throw fault;
    }
    const { id } = producer;
    return {
      id,
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

  /** Consumes a producer of this router, from any leg. */
  async consume(
    producerId: string,
    rtpCapabilities: Router['rtpCapabilities'],
    onDatagram: OnDatagram,
  ): Promise<PlainConsumer> {
    const consumer = await this.#transport.consume({ producerId, rtpCapabilities, paused: true });
    const ssrc = consumer.rtpParameters.encodings?.[0]?.ssrc;
    if (ssrc === undefined || this.#receivers.has(ssrc)) {
      consumer.close();
      throw new Error('the media worker gave a consumer no SSRC of its own');
    }
    const levelExtensionId = levelExtensionIdOf(consumer);
    this.#receivers.set(ssrc, (datagram) => onDatagram(datagram, levelExtensionId));
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
    return { close };
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

  /** Returns an SSRC that is not in use: mediasoup refuses others, and 0 means none. */
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
