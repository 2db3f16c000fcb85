import type { Producer, RtpParameters } from 'mediasoup/types';
import {
  ClientTransport,
  type ClientTransportOptions,
  type TransportHost,
} from './client-transport.ts';
import type { Publish } from './pipe.ts';
import { type ReceivedRtp, receivedRtp } from './received-rtp.ts';

export type WebRtcInputOptions = ClientTransportOptions & { rtpParameters: RtpParameters };

/** Audio from one client, over a transport of its own. */
export class WebRtcInput {
  readonly path: ClientTransport;
  readonly #producer: Producer;

  private constructor(path: ClientTransport, producer: Producer) {
    this.path = path;
    this.#producer = producer;
  }

  /**
   * @param publish called with the producer before any other listener
   * @throws {Error} if the media worker refuses the parameters, dies or hangs
   */
  static async open(
    host: TransportHost,
    publish: Publish,
    options: WebRtcInputOptions,
  ): Promise<WebRtcInput> {
    const path = await ClientTransport.open(host, options);
    try {
      const { rtpParameters } = options;
      const producer = await path.transport.produce({ kind: 'audio', rtpParameters });
      await publish(producer);
      // mediasoup makes a producer even if the transport was closed meanwhile.
      if (path.transport.closed) {
        producer.close();
        throw new Error('the transport was closed meanwhile');
      }
      return new WebRtcInput(path, producer);
    } catch (fault) {
      path.close();
      throw fault;
    }
  }

  get producerId(): string {
    return this.#producer.id;
  }

  /** Returns what its producer has received; undefined if that closes meanwhile. */
  receivedRtp(): Promise<ReceivedRtp | undefined> {
    return receivedRtp(this.#producer);
  }

  /** Pauses or resumes the producer. @throws {Error} if the media worker dies or hangs */
  async setMuted(isMuted: boolean): Promise<void> {
    if (isMuted) await this.#producer.pause();
    else await this.#producer.resume();
  }

  close(): void {
    this.path.close();
  }
}
