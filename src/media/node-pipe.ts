import type { PipeTransport, Router, RtpParameters, SrtpParameters } from 'mediasoup/types';
import { familyOf, type IpFamily, type ListenAddress } from '../../config/listen-addresses.ts';
import type { Publish } from './pipe.ts';

export type PipeSettings = {
  /** Addresses at which this node receives media: one, or one of each family. */
  addresses: ListenAddress[];
  /** UDP ports that pipes may use. */
  portRange: { min: number; max: number };
};

/**
 * Returns this node's address for a pipe to another node: IPv4 if both have it, so that both choose the same family;
 * undefined if they have no family in common.
 * @param families address families of the other node; undefined if it does not report them
 */
export function addressFor(
  { addresses }: PipeSettings,
  families: readonly IpFamily[] | undefined,
): ListenAddress | undefined {
  const common = addresses.filter((each) => families?.includes(familyOf(each)) ?? true);
  return common.find((each) => familyOf(each) === 'ipv4') ?? common[0];
}

/** Parameters that the other end needs to connect. */
export type PipeAddress = { ip: string; port: number; srtpParameters: SrtpParameters };

/** A producer of this node, sent to the other end. */
export type PipedOut = { rtpParameters: RtpParameters; readonly paused: boolean; close(): void };

/** A producer of the other node, on this node's router. */
export type PipedIn = { close(): void };

/** Traffic of a pipe since it was opened. */
export type PipeTraffic = {
  /** Number of bytes received, including reports of the other end. */
  bytesReceived: number;
  /** Number of bytes sent, without reports. */
  rtpBytesSent: number;
};

/** This node's end of a pipe between the routers that a room has on two nodes: RTP over UDP, encrypted (SRTP). */
export class NodePipe {
  /** Unique among all ends that were ever opened. */
  readonly id: string;
  readonly address: PipeAddress;
  readonly #transport: PipeTransport;
  readonly #publish: Publish;

  private constructor(transport: PipeTransport, publish: Publish) {
    const { srtpParameters, tuple } = transport;
    if (!srtpParameters) throw new Error('the media worker gave a pipe no SRTP key');
    this.id = transport.id;
    this.address = { ip: tuple.localAddress, port: tuple.localPort, srtpParameters };
    this.#transport = transport;
    this.#publish = publish;
  }

  /** @param publish called with each incoming producer, before it is heard */
  static async open(
    router: Router,
    { ip, announced }: ListenAddress,
    portRange: PipeSettings['portRange'],
    publish: Publish,
  ): Promise<NodePipe> {
    const transport = await router.createPipeTransport({
      listenInfo: {
        protocol: 'udp',
        ip,
        ...(announced !== undefined && { announcedAddress: announced }),
        portRange,
      },
      enableSrtp: true,
      enableRtx: false,
      enableSctp: false,
    });
    return new NodePipe(transport, publish);
  }

  /** Connects to the other end; may be called once. @throws {TypeError} if mediasoup does not accept the address */
  async connect(address: PipeAddress): Promise<void> {
    await this.#transport.connect(address);
  }

  /**
   * Sends a producer of this node to the other end.
   * @param onPaused called when it is paused or resumed
   * @throws {Error} if the pipe is closed meanwhile
   */
  async send(producerId: string, onPaused: () => void): Promise<PipedOut> {
    const consumer = await this.#transport.consume({ producerId });
    try {
      this.#checkOpen();
    } catch (fault) {
      consumer.close();
      throw fault;
    }
    consumer.on('producerpause', onPaused);
    consumer.on('producerresume', onPaused);
    return {
      rtpParameters: consumer.rtpParameters,
      get paused() {
        return consumer.producerPaused;
      },
      close: () => consumer.close(),
    };
  }

  /**
   * Creates a producer on this node's router, with the same id, from what the other end sends. It is never paused: a paused producer
   * sends nothing from its own node, and is heard again with its first packet.
   * @throws {Error} if the pipe is closed meanwhile
   */
  async receive(id: string, rtpParameters: RtpParameters): Promise<PipedIn> {
    const producer = await this.#transport.produce({ id, kind: 'audio', rtpParameters });
    try {
      this.#checkOpen();
      await this.#publish(producer);
      this.#checkOpen();
    } catch (fault) {
      producer.close();
      throw fault;
    }
    return { close: () => producer.close() };
  }

  /** True once it was closed, by its owner or because its router closed. */
  get isClosed(): boolean {
    return this.#transport.closed;
  }

  async traffic(): Promise<PipeTraffic> {
    const [stats] = await this.#transport.getStats();
    return { bytesReceived: stats?.bytesReceived ?? 0, rtpBytesSent: stats?.rtpBytesSent ?? 0 };
  }

  /** Closes the pipe and everything on it. */
  close(): void {
    this.#transport.close();
  }

  /** Checks that the pipe was not closed during a request: mediasoup makes producers and consumers even then, and never closes them. */
  #checkOpen(): void {
    if (this.isClosed) throw new Error('the pipe was closed meanwhile');
  }
}
