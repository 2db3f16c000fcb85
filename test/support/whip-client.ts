import {
  MediaStreamTrack,
  RTCPeerConnection,
  RTCRtpCodecParameters,
  RtpHeader,
  RtpPacket,
} from 'werift';
import type { WhipKind } from '../../src/whip/offer.ts';
import { eventually } from './gateway.ts';

const SDP = 'application/sdp';

/** Content type of a DTLS record with an alert (RFC 6347, section 4.1). */
const DTLS_ALERT = 21;
/** Position of the epoch in a record of DTLS, bytes: it is 0 until both sides encrypt. */
const EPOCH_AT = 3;

/** Address to which a client of WHIP or WHEP posts, and its key. */
export type WhipTarget = { url: string; apiKey: string };

/** Posts an offer, or anything else. */
export const postOffer = (
  { url, apiKey }: WhipTarget,
  path: string,
  sdp: string,
  { type = SDP, key = apiKey }: { type?: string; key?: string } = {},
): Promise<Response> =>
  fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': type },
    body: sdp,
  });

/** A client of WHIP or WHEP that is no browser: its WebRTC is werift, another one than the gateway's. */
export class WhipClient {
  /** RTP packets that a player received. */
  readonly heard: RtpPacket[] = [];
  readonly #connection: RTCPeerConnection;
  readonly #track = new MediaStreamTrack({ kind: 'audio' });
  readonly #payloadType: number;
  #target: WhipTarget | undefined;
  #talking: NodeJS.Timeout | undefined;
  #packets: Buffer[] = [];
  #location = '';
  #etag = '';
  #isEnded = false;

  private constructor(kind: WhipKind, payloadType: number) {
    this.#payloadType = payloadType;
    const codec = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType };
    this.#connection = new RTCPeerConnection({
      // No network is needed, and no server of another.
      iceServers: [],
      iceAdditionalHostAddresses: ['127.0.0.1'],
      codecs: { audio: [new RTCRtpCodecParameters(codec)], video: [] },
    });
    if (kind === 'whip') this.#connection.addTransceiver(this.#track, { direction: 'sendonly' });
    else this.#connection.addTransceiver('audio', { direction: 'recvonly' });
    this.#connection.onTrack.subscribe((track) => {
      track.onReceiveRtp.subscribe((packet) => {
        this.heard.push(packet);
      });
    });
  }

  /**
   * Connects; resolves when sound can flow.
   * @param setup DTLS role that it offers
   */
  static async connect(
    kind: WhipKind,
    target: WhipTarget,
    path: string,
    {
      payloadType = 96,
      key,
      setup = 'actpass',
    }: { payloadType?: number; key?: string; setup?: 'actpass' | 'passive' } = {},
  ): Promise<WhipClient> {
    const client = new WhipClient(kind, payloadType);
    const connection = client.#connection;
    client.#target = { ...target, apiKey: key ?? target.apiKey };
    await connection.setLocalDescription(await connection.createOffer());
    const offer = (connection.localDescription?.sdp ?? '').replace(
      'setup:actpass',
      `setup:${setup}`,
    );
    const response = await postOffer(client.#target, path, offer);
    const sdp = await response.text();
    if (response.status !== 201) throw new Error(`${response.status}: ${sdp}`);
    client.#location = response.headers.get('location') ?? '';
    client.#etag = response.headers.get('etag') ?? '';
    await connection.setRemoteDescription({ type: 'answer', sdp });
    connection.iceTransports[0]!.connection.onData.subscribe((bytes) => client.#noteEnd(bytes));
    await eventually('connected', () => connection.connectionState === 'connected');
    return client;
  }

  /** The address of its session. */
  get location(): string {
    return this.#location;
  }

  /** True when the gateway has ended DTLS. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  get etag(): string {
    return this.#etag;
  }

  /**
   * Notes an encrypted alert, which ends DTLS. The state of werift's transport does not tell it each time: werift takes one encrypted
   * alert in ten for a plain one, by the first bytes of its nonce, and drops it.
   */
  #noteEnd(bytes: Buffer): void {
    if (bytes[0] !== DTLS_ALERT || bytes.length < EPOCH_AT + 2) return;
    if (bytes.readUInt16BE(EPOCH_AT) > 0) this.#isEnded = true;
  }

  /** Asks something of its session. */
  ask(method: string, headers: Record<string, string> = {}, body?: string): Promise<Response> {
    const { url, apiKey } = this.#target!;
    return fetch(url + this.#location, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, ...headers },
      ...(body !== undefined && { body }),
    });
  }

  /** Lets go of its network without a word to its session. */
  async vanish(): Promise<void> {
    clearInterval(this.#talking);
    await this.#connection.close();
  }

  /**
   * Sends Opus packets of 20 ms over and over, until it is closed, or called again with others: the stream goes on with these.
   * @param speed multiple of real time, of the first call
   */
  talk(packets: Buffer[], speed = 1): void {
    this.#packets = packets;
    if (this.#talking) return;
    let sent = 0;
    const everyMs = 20 / speed;
    const startMs = performance.now();
    this.#talking = setInterval(() => {
      for (; startMs + sent * everyMs <= performance.now(); sent += 1) {
        const header = new RtpHeader({
          payloadType: this.#payloadType,
          sequenceNumber: (1000 + sent) & 0xffff,
          timestamp: (sent * 960) >>> 0,
          marker: sent === 0,
        });
        this.#track.writeRtp(new RtpPacket(header, this.#packets[sent % this.#packets.length]!));
      }
    }, 10);
  }

  /** Ends its session, if that has not ended, and lets go of all. */
  async close(): Promise<void> {
    clearInterval(this.#talking);
    await this.ask('DELETE');
    await this.#connection.close();
  }
}
