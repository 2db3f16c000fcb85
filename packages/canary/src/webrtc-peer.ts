import { randomInt } from 'node:crypto';
import { RtpHeader, type RtpPacket } from 'werift';
import { FRAME_SAMPLES } from './chirp.ts';
import { Connection, PATIENCE_MS, type Target } from './connection.ts';
import { type Heard, joinFrames } from './ear.ts';
import { MediaTransport } from './media-transport.ts';
import type { Message, MessageOf, TransportDescription } from './messages.ts';
import type { CanaryPeer } from './peer.ts';
import { decodeOpus } from './voice.ts';

const PAYLOAD_TYPE = 111;
/** Time within which a speaker must have a consumer, before the chirp is played all the same. */
const CONSUMER_MS = PATIENCE_MS / 4;

type Packet = { rtp: RtpPacket; atMs: number };

/** A peer as a browser is one: signaling over the WebSocket, sound over SRTP. */
export class WebRtcPeer implements CanaryPeer {
  readonly kind = 'webrtc';
  readonly name: string;
  readonly #connection: Connection;
  readonly #stopped: AbortSignal | undefined;
  readonly #ssrc = randomInt(1, 2 ** 32 - 1);
  /** SSRC of each peer that is heard. */
  readonly #ssrcOf = new Map<string, number>();
  readonly #packets = new Map<number, Packet[]>();
  #wake: () => void = () => {};
  /** All that were opened, connected or not. */
  readonly #transports: MediaTransport[] = [];
  #sending: MediaTransport | undefined;
  #sent = randomInt(2 ** 16);
  #joinMs = 0;

  private constructor(name: string, connection: Connection, stopped: AbortSignal | undefined) {
    this.name = name;
    this.#connection = connection;
    this.#stopped = stopped;
    connection.onMessage = (message) => {
      if (message.type === 'new_consumer') this.#consume(message);
    };
  }

  /** Joins the room, with sound both ways. @throws {Error} that says what failed */
  static async join(target: Target, name: string): Promise<WebRtcPeer> {
    const startMs = performance.now();
    const peer = new WebRtcPeer(name, await Connection.open(target, name), target.stopped);
    try {
      await peer.#join(target.room);
    } catch (fault) {
      await peer.close();
      throw fault;
    }
    peer.#joinMs = performance.now() - startMs;
    return peer;
  }

  get joinMs(): number {
    return this.#joinMs;
  }

  get path(): string {
    return this.#sending?.path ?? 'none';
  }

  set onFault(handle: (fault: Error) => void) {
    this.#connection.onFault = handle;
  }

  send(frame: Uint8Array): void {
    const header = new RtpHeader({
      payloadType: PAYLOAD_TYPE,
      ssrc: this.#ssrc,
      sequenceNumber: this.#sent & 0xffff,
      timestamp: (this.#sent * FRAME_SAMPLES) >>> 0,
    });
    this.#sent += 1;
    this.#sending?.send(frame, header);
  }

  async untilHears(peer: string): Promise<void> {
    const late = AbortSignal.timeout(CONSUMER_MS);
    while (!this.#ssrcOf.has(peer) && !late.aborted) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        late.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  listen(): void {
    this.#packets.clear();
  }

  async heard(peer: string): Promise<Heard> {
    const packets = this.#packets.get(this.#ssrcOf.get(peer) ?? 0) ?? [];
    const [first] = packets;
    const places = packets.map(({ rtp, atMs }) => ({
      // Signed: a packet may come before the first, which was late.
      at: (rtp.header.timestamp - first!.rtp.header.timestamp) | 0,
      payload: rtp.payload,
      atMs,
    }));
    const inOrder = places.toSorted((a, b) => a.at - b.at);
    const decoded = await decodeOpus(inOrder.map(({ payload }) => payload));
    return joinFrames(
      inOrder.map(({ at, atMs }, i) => ({ at, atMs, samples: decoded[i] ?? new Float32Array(0) })),
    );
  }

  async close(): Promise<void> {
    this.#connection.close();
    await Promise.all(this.#transports.map((transport) => transport.close()));
  }

  async #join(room: string): Promise<void> {
    const { webrtc } = await this.#connection.ask(
      { type: 'join', room, media: 'webrtc' },
      'joined',
    );
    if (!webrtc) throw new Error('the gateway gave a WebRTC peer no transports');
    const { send_transport, recv_transport } = webrtc;
    [this.#sending] = await Promise.all([
      this.#connect(send_transport),
      this.#connect(recv_transport),
    ]);
    const produce = {
      type: 'produce',
      transport_id: send_transport.id,
      kind: 'audio',
      rtp_parameters: {
        codecs: [
          {
            mimeType: 'audio/opus',
            payloadType: PAYLOAD_TYPE,
            clockRate: 48_000,
            channels: 2,
            parameters: { useinbandfec: 1 },
          },
        ],
        headerExtensions: [],
        encodings: [{ ssrc: this.#ssrc }],
        rtcp: { cname: this.name },
      },
    };
    await this.#connection.ask(produce, 'produced');
  }

  async #connect(description: TransportDescription): Promise<MediaTransport> {
    const transport = await MediaTransport.open(description.ice_servers);
    this.#transports.push(transport);
    transport.onRtp = (rtp) => this.#receive({ rtp, atMs: performance.now() });
    const request = {
      type: 'connect_transport',
      transport_id: description.id,
      dtls_parameters: transport.dtlsParameters,
    };
    await this.#connection.ask(request, 'transport_connected');
    await transport.connect(description, this.#stopped);
    return transport;
  }

  #consume({ consumer_id, peer, rtp_parameters }: MessageOf<'new_consumer'>): void {
    this.#connection.ask({ type: 'resume_consumer', consumer_id }, 'consumer_resumed').then(
      (_resumed: Message) => {
        this.#ssrcOf.set(peer, rtp_parameters.encodings[0]!.ssrc);
        this.#wake();
      },
      // The peer is then reported as silent.
      () => {},
    );
  }

  #receive(packet: Packet): void {
    const { ssrc } = packet.rtp.header;
    const packets = this.#packets.get(ssrc) ?? [];
    this.#packets.set(ssrc, packets);
    packets.push(packet);
  }
}
