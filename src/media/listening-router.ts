import type { Consumer, Router, WebRtcServer } from 'mediasoup/types';
import {
  ClientTransport,
  type ClientTransportOptions,
  type TransportHost,
} from './client-transport.ts';
import { PlainLeg, type PlainProducer } from './plain-leg.ts';

/** The part of a media worker that a listening router uses. */
type RouterHost = {
  readonly webRtcServer: WebRtcServer;
  openRouter(preferredPayloadType: number): Promise<Router>;
};

/** A stream of Opus to one client, fed by plain RTP. */
export type WebRtcOutput = {
  path: ClientTransport;
  /** Takes the packets. */
  feed: PlainProducer;
  /** SSRC and CNAME of the packets that the client receives. */
  stream: { ssrc: number; cname: string };
  /** Idempotent. */
  close(): void;
};

/**
 * A router whose clients all receive Opus under one payload type. mediasoup sends with the payload type of
 * the router, whatever the client has offered, and many clients decode only payload types that they offered.
 */
class ListeningRouter implements TransportHost {
  readonly router: Router;
  readonly webRtcServer: WebRtcServer;
  readonly payloadType: number;
  readonly #plainLeg: PlainLeg;

  private constructor(
    router: Router,
    webRtcServer: WebRtcServer,
    payloadType: number,
    plainLeg: PlainLeg,
  ) {
    this.router = router;
    this.webRtcServer = webRtcServer;
    this.payloadType = payloadType;
    this.#plainLeg = plainLeg;
  }

  static async open(worker: RouterHost, payloadType: number): Promise<ListeningRouter> {
    const router = await worker.openRouter(payloadType);
    try {
      // Not published: no other router needs these producers.
      const plainLeg = await PlainLeg.open(router, async () => {});
      // The socket outlives the media worker.
      router.observer.once('close', () => plainLeg.close());
      return new ListeningRouter(router, worker.webRtcServer, payloadType, plainLeg);
    } catch (fault) {
      router.close();
      throw fault;
    }
  }

  async openOutput(options: ClientTransportOptions, onClosed: () => void): Promise<WebRtcOutput> {
    const feed = await this.#plainLeg.produce();
    let path: ClientTransport | undefined;
    try {
      path = await ClientTransport.open(this, options);
      const stream = streamOf(await this.#consume(path, feed));
      return { path, feed, stream, close: closeOnce(path, feed, onClosed) };
    } catch (fault) {
      path?.close();
      feed.close();
      throw fault;
    }
  }

  close(): void {
    this.#plainLeg.close();
    this.router.close();
  }

  #consume({ transport }: ClientTransport, feed: PlainProducer): Promise<Consumer> {
    return transport.consume({
      producerId: feed.id,
      // No header extensions, because their ids would be the router's and not the client's.
      rtpCapabilities: {
        codecs: [
          {
            kind: 'audio',
            mimeType: 'audio/opus',
            clockRate: 48_000,
            channels: 2,
            preferredPayloadType: this.payloadType,
          },
        ],
        headerExtensions: [],
      },
    });
  }
}

/** The listening routers of one media worker, each open while it has listeners. */
export class ListeningRouters {
  readonly #worker: RouterHost;
  /** By payload type. */
  readonly #entries = new Map<number, { opening: Promise<ListeningRouter>; users: number }>();

  constructor(worker: RouterHost) {
    this.#worker = worker;
  }

  /**
   * Opens an output on the router of a payload type, which it shares with others; `close()` releases it.
   * @param payloadType payload type of Opus in the client's offer
   * @throws {Error} if the media worker refuses the parameters, dies or hangs
   */
  async openOutput(payloadType: number, options: ClientTransportOptions): Promise<WebRtcOutput> {
    const entry = this.#entries.get(payloadType) ?? {
      opening: ListeningRouter.open(this.#worker, payloadType),
      users: 0,
    };
    this.#entries.set(payloadType, entry);
    entry.users += 1;
    const release = () => {
      entry.users -= 1;
      if (entry.users > 0) return;
      this.#entries.delete(payloadType);
      // If opening failed, each caller has the error.
      entry.opening.then(
        (router) => router.close(),
        () => {},
      );
    };
    try {
      return await (await entry.opening).openOutput(options, release);
    } catch (fault) {
      release();
      throw fault;
    }
  }
}

function closeOnce(path: ClientTransport, feed: PlainProducer, onClosed: () => void): () => void {
  let isClosed = false;
  return () => {
    if (isClosed) return;
    isClosed = true;
    path.close();
    feed.close();
    onClosed();
  };
}

function streamOf({ rtpParameters }: Consumer): { ssrc: number; cname: string } {
  const ssrc = rtpParameters.encodings?.[0]?.ssrc;
  if (ssrc === undefined) throw new Error('the media worker gave a consumer no SSRC');
  return { ssrc, cname: rtpParameters.rtcp?.cname || 'partyline' };
}
