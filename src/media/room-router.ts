import type { Router, RtpCapabilities, WebRtcServer, Worker } from 'mediasoup/types';
import { NodePipe, type PipeSettings } from './node-pipe.ts';
import { PlainLeg } from './plain-leg.ts';
import { WebRtcLeg, type WebRtcLegEvents } from './webrtc-leg.ts';

/**
 * The mediasoup router of one room, and its two kinds of legs: one plain leg that carries every WebSocket peer, and a
 * WebRTC leg for each browser.
 */
export class RoomRouter {
  readonly plainLeg: PlainLeg;
  readonly #router: Router;
  readonly #webRtcServer: WebRtcServer;
  readonly #onClosed: () => void;

  private constructor(
    router: Router,
    webRtcServer: WebRtcServer,
    plainLeg: PlainLeg,
    onClosed: () => void,
  ) {
    this.#router = router;
    this.#webRtcServer = webRtcServer;
    this.plainLeg = plainLeg;
    this.#onClosed = onClosed;
  }

  /** @param events `onClosed`: it is no more, for whatever reason; `onLost`: its media worker died */
  static async open(
    worker: Worker,
    webRtcServer: WebRtcServer,
    events: { onClosed: () => void; onLost: () => void },
  ): Promise<RoomRouter> {
    const router = await worker.createRouter({
      mediaCodecs: [
        {
          kind: 'audio',
          mimeType: 'audio/opus',
          clockRate: 48000,
          channels: 2,
          parameters: { useinbandfec: 1 },
        },
      ],
    });
    try {
      const plainLeg = await PlainLeg.open(router);
      const room = new RoomRouter(router, webRtcServer, plainLeg, events.onClosed);
      router.on('workerclose', () => {
        room.close();
        events.onLost();
      });
      return room;
    } catch (fault) {
      router.close();
      throw fault;
    }
  }

  get rtpCapabilities(): RtpCapabilities {
    return this.#router.rtpCapabilities;
  }

  openWebRtcLeg(events: WebRtcLegEvents): Promise<WebRtcLeg> {
    return WebRtcLeg.open(this.#router, this.#webRtcServer, events);
  }

  /** Opens this node's end of a pipe to the room's router on another node. */
  openNodePipe(settings: PipeSettings): Promise<NodePipe> {
    return NodePipe.open(this.#router, settings, async () => {});
  }

  /** Closes the router and with it every transport, producer and consumer. */
  close(): void {
    this.plainLeg.close();
    this.#router.close();
    this.#onClosed();
  }
}
