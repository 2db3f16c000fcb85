import {
  MediaStreamTrack,
  RTCPeerConnection,
  RTCRtpCodecParameters,
  RtpHeader,
  RtpPacket,
} from 'werift';
import type { ServerMessage } from '../../src/protocol/messages.ts';
import type {
  ConsumerDescription,
  TransportDescription,
  WebRtcDescription,
} from '../../src/protocol/webrtc-descriptions.ts';
import { writeAnswer } from '../../src/whip/answer.ts';
import { readOffer, type WhipKind } from '../../src/whip/offer.ts';
import type { TestClient } from './client.ts';

const PAYLOAD_TYPE = 100;
const OPUS = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: PAYLOAD_TYPE };

/** The media of a browser that is in a room by way of `/ws`, without a browser: its WebRTC is werift. */
export class WebRtcClient {
  /** RTP packets that came, with the peer whose they are. */
  readonly heard: { peer: string; payload: Buffer }[] = [];
  readonly #client: TestClient;
  readonly #description: WebRtcDescription;
  readonly #hosts: string[];
  readonly #connections: RTCPeerConnection[] = [];
  readonly #track = new MediaStreamTrack({ kind: 'audio' });
  /** By SSRC. */
  readonly #consumers = new Map<number, string>();
  #talking: NodeJS.Timeout | undefined;
  #sent = 0;

  /**
   * @param client has been told of `description` in `joined`
   * @param hosts addresses by which the client reaches the gateway
   */
  constructor(
    client: TestClient,
    description: WebRtcDescription | undefined,
    hosts = ['127.0.0.1'],
  ) {
    if (!description) throw new Error('no webrtc in joined');
    this.#client = client;
    this.#description = description;
    this.#hosts = hosts;
  }

  /** Connects to hear, and resumes every consumer that it is or was told of. */
  async hear(): Promise<void> {
    const connection = this.#open('whep');
    const { recv_transport: transport } = this.#description;
    const { messages, onMessage } = this.#client;
    this.#client.onMessage = (message) => {
      onMessage(message);
      this.#resume(message);
    };
    await this.#connect(connection, 'whep', transport);
    connection.dtlsTransports[0]!.onRtp.subscribe(({ header, payload }) => {
      const peer = this.#consumers.get(header.ssrc);
      if (peer !== undefined) this.heard.push({ peer, payload });
    });
    for (const message of messages) this.#resume(message);
  }

  /** Connects to speak. @returns the id of its producer */
  async produce(): Promise<string> {
    const connection = this.#open('whip');
    const { send_transport: transport } = this.#description;
    const ssrc = await this.#connect(connection, 'whip', transport);
    const rtp_parameters = { codecs: [OPUS], encodings: [{ ssrc }] };
    const produce = { type: 'produce', kind: 'audio', transport_id: transport.id, rtp_parameters };
    return (await this.#client.ask(produce, 'produced')).producer_id;
  }

  /**
   * Sends Opus packets of 20 ms over and over, in place of what it has sent.
   * @param speed multiple of real time
   */
  talk(packets: Buffer[], speed = 1): void {
    this.stopTalking();
    const everyMs = 20 / speed;
    const startMs = performance.now() - this.#sent * everyMs;
    this.#talking = setInterval(() => {
      for (; startMs + this.#sent * everyMs <= performance.now(); this.#sent += 1) {
        const header = new RtpHeader({
          payloadType: PAYLOAD_TYPE,
          sequenceNumber: (1000 + this.#sent) & 0xffff,
          timestamp: (this.#sent * 960) >>> 0,
          marker: this.#sent === 0,
        });
        this.#track.writeRtp(new RtpPacket(header, packets[this.#sent % packets.length]!));
      }
    }, 10);
  }

  stopTalking(): void {
    clearInterval(this.#talking);
  }

  async close(): Promise<void> {
    this.stopTalking();
    await Promise.all(this.#connections.map((connection) => connection.close()));
  }

  #open(kind: WhipKind): RTCPeerConnection {
    const connection = new RTCPeerConnection({
      // No network is needed, and no server of another.
      iceServers: [],
      iceAdditionalHostAddresses: this.#hosts,
      codecs: { audio: [new RTCRtpCodecParameters(OPUS)], video: [] },
    });
    this.#connections.push(connection);
    if (kind === 'whip') connection.addTransceiver(this.#track, { direction: 'sendonly' });
    else connection.addTransceiver('audio', { direction: 'recvonly' });
    return connection;
  }

  /** @returns the SSRC of what is sent */
  async #connect(
    connection: RTCPeerConnection,
    kind: WhipKind,
    { id, ice_parameters, ice_candidates, dtls_parameters }: TransportDescription,
  ): Promise<number> {
    await connection.setLocalDescription(await connection.createOffer());
    const offer = readOffer(connection.localDescription?.sdp ?? '', kind);
    const { fingerprints } = offer.dtls;
    const connect = { type: 'connect_transport', transport_id: id };
    await this.#client.ask(
      { ...connect, dtls_parameters: { role: 'client', fingerprints } },
      'transport_connected',
    );
    const transport = {
      iceParameters: ice_parameters,
      iceCandidates: ice_candidates.filter(({ protocol }) => protocol === 'udp'),
      dtlsParameters: dtls_parameters,
    };
    const sent = kind === 'whep' ? { ssrc: 1, cname: 'gateway' } : undefined;
    const sdp = writeAnswer(offer, kind, transport, [], sent);
    await connection.setRemoteDescription({ type: 'answer', sdp });
    return offer.ssrc ?? 0;
  }

  #resume(message: ServerMessage): void {
    if (message.type !== 'new_consumer') return;
    const { consumer_id, peer, rtp_parameters }: ConsumerDescription = message;
    const ssrc = rtp_parameters.encodings?.[0]?.ssrc;
    if (ssrc === undefined || this.#consumers.has(ssrc)) return;
    this.#consumers.set(ssrc, peer);
    this.#client.send({ type: 'resume_consumer', consumer_id });
  }
}
