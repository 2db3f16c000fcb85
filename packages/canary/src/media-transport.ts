import { setTimeout as sleep } from 'node:timers/promises';
import {
  type DtlsSocket,
  IceCandidate,
  type IceOptions,
  ProtectionProfileAes128CmHmacSha1_80,
  RTCDtlsFingerprint,
  RTCDtlsParameters,
  RTCDtlsTransport,
  RTCIceGatherer,
  RTCIceParameters,
  RTCIceTransport,
  RtpHeader,
  type RtpPacket,
} from 'werift';
import { PATIENCE_MS } from './connection.ts';
import type { TransportDescription } from './messages.ts';

/** Time for a TURN server to answer. Without it, a transport goes on with the addresses of this machine. */
const RELAY_MS = 1500;

/** DTLS parameters of this end, as mediasoup writes them. */
export type OwnDtlsParameters = {
  role: 'client';
  fingerprints: { algorithm: string; value: string }[];
};

/**
 * One WebRTC transport to the gateway: ICE, DTLS and SRTP by werift, without a description of sessions, because the gateway's
 * messages name the parameters themselves.
 */
export class MediaTransport {
  readonly #ice: RTCIceTransport;
  readonly #dtls: RTCDtlsTransport;
  /** Resolves when the TURN server has answered, or is given up. */
  #gathered = Promise.resolve();

  private constructor(ice: RTCIceTransport, dtls: RTCDtlsTransport) {
    this.#ice = ice;
    this.#dtls = dtls;
  }

  /**
   * Prepares a transport: its parameters are for the gateway. {@link connect} connects it.
   * @param isDecrypting false for one that only counts what comes ({@link onDatagram}), and sends nothing: it has no keys
   */
  static async open(
    servers: TransportDescription['ice_servers'],
    isDecrypting = true,
  ): Promise<MediaTransport> {
    const certificate = await RTCDtlsTransport.SetupCertificate();
    const gatherer = new RTCIceGatherer({
      ...relayOf(servers),
      useTcp: true,
      tcpPassive: false,
      // For a gateway on this machine.
      additionalHostAddresses: ['127.0.0.1'],
    });
    // werift would ask a public server of its own choice for an address that an ICE lite agent
    // finds out anyway, for up to 5 s.
    delete gatherer.connection.stunServer;
    const ice = new RTCIceTransport(gatherer);
    // RFC 8445 §6.1.1: against an ICE lite agent.
    ice.connection.iceControlling = true;
    const profiles = [ProtectionProfileAes128CmHmacSha1_80];
    const dtls = new RTCDtlsTransport({}, ice, certificate, profiles);
    dtls.role = 'client';
    // werift would begin to decrypt after the handshake.
    dtls.srtpStarted = !isDecrypting;
    return new MediaTransport(ice, dtls);
  }

  get dtlsParameters(): OwnDtlsParameters {
    const { fingerprints } = this.#dtls.localParameters;
    return {
      role: 'client',
      fingerprints: fingerprints.map(({ algorithm, value }) => ({ algorithm, value })),
    };
  }

  /** The path in use, such as `udp 203.0.113.7:40000`; undefined before {@link connect}. */
  get path(): string | undefined {
    const pair = this.#ice.connection.nominated;
    if (!pair) return undefined;
    const { transport, host, port } = pair.remoteCandidate;
    const relayed = pair.localCandidate.type === 'relay' ? ' through TURN' : '';
    return `${transport} ${host}:${port}${relayed}`;
  }

  /** Number of RTP packets that were encrypted and sent. */
  get packetsSent(): number {
    return this.#dtls.packetsSent;
  }

  /** Called with each RTP packet. */
  set onRtp(handle: (packet: RtpPacket) => void) {
    this.#dtls.onRtp.subscribe(handle);
  }

  /** Called with each datagram of the path in use, be it media or not. */
  set onDatagram(handle: (bytes: Buffer) => void) {
    this.#ice.connection.onData.subscribe(handle);
  }

  /** Connects ICE and DTLS. @throws {Error} if that fails, takes too long, or is stopped */
  async connect(
    {
      ice_parameters: ice,
      ice_candidates: candidates,
      dtls_parameters: dtls,
    }: TransportDescription,
    stopped?: AbortSignal,
  ): Promise<void> {
    const { promise: ended, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      reject(new Error(`no WebRTC path within ${PATIENCE_MS / 1000} s`));
    }, PATIENCE_MS);
    const stop = () => reject(stopped?.reason as Error);
    stopped?.addEventListener('abort', stop);
    try {
      await Promise.race([this.#connect(ice, candidates, dtls), ended]);
    } finally {
      clearTimeout(timer);
      stopped?.removeEventListener('abort', stop);
    }
  }

  send(payload: Uint8Array, header: RtpHeader): void {
    this.#dtls.sendRtp(Buffer.from(payload), header).catch(() => {
      // Lost, as any packet may be: the listener tells.
    });
  }

  async close(): Promise<void> {
    await this.#dtls.stop();
    // A TURN server may still answer, and its relay would stay open.
    void this.#gathered.then(() => this.#ice.connection.close());
  }

  async #connect(
    { usernameFragment, password }: TransportDescription['ice_parameters'],
    candidates: TransportDescription['ice_candidates'],
    { fingerprints }: TransportDescription['dtls_parameters'],
  ): Promise<void> {
    this.#gathered = this.#ice.gather();
    await Promise.race([this.#gathered, sleep(RELAY_MS, undefined, { ref: false })]);
    this.#ice.setRemoteParams(new RTCIceParameters({ iceLite: true, usernameFragment, password }));
    for (const candidate of candidates) await this.#ice.addRemoteCandidate(candidateOf(candidate));
    await this.#ice.addRemoteCandidate(undefined);
    const theirs = fingerprints.map(
      ({ algorithm, value }) => new RTCDtlsFingerprint(algorithm, value),
    );
    this.#dtls.setRemoteParams(new RTCDtlsParameters(theirs, 'server'));
    await this.#ice.start();
    const connected = this.#dtls.start();
    const { dtls } = this.#dtls;
    // Exists at once, unless the parameters are refused, and sends its first message 100 ms later.
    if (dtls) ignoreRepeatedFlight(dtls);
    await connected;
  }
}

/** Messages of a server's first flight, ServerHello to ServerHelloDone (RFC 6347 §4.2.4). */
const SERVER_FLIGHT: ReadonlySet<number> = new Set([2, 11, 12, 13, 14]);
/** Number of the client's flight that answers it. */
const ANSWER_FLIGHT = 5;

/**
 * Has a client ignore a flight that the server retransmits after the client has answered it. If it comes
 * together with the end of the handshake, as through TURN over TLS, werift would derive keys from it that the
 * server does not have, and no sound would get through. The client's answer, if lost, is retransmitted by a
 * timer.
 */
function ignoreRepeatedFlight(client: DtlsSocket): void {
  const handle = client.onHandleHandshakes;
  client.onHandleHandshakes = (messages) => {
    const isAnswered = client.dtls.flight >= ANSWER_FLIGHT;
    const isRepeated = (type: number) => isAnswered && SERVER_FLIGHT.has(type);
    return handle(messages.filter(({ msg_type: type }) => !isRepeated(type)));
  };
}

/** Component of a candidate: RTP and RTCP share one. */
const COMPONENT = 1;

function candidateOf({
  foundation,
  priority,
  address,
  ip,
  protocol,
  port,
  type,
  tcpType,
}: TransportDescription['ice_candidates'][number]): IceCandidate {
  const host = address ?? ip ?? '';
  const candidate = new IceCandidate(COMPONENT, foundation, host, port, priority, protocol, type);
  if (tcpType !== undefined) candidate.tcpType = tcpType;
  return candidate;
}

/** The first TURN server that is named, as werift takes it. */
export function relayOf(servers: TransportDescription['ice_servers'] = []): Partial<IceOptions> {
  for (const { urls, username, credential } of servers) {
    for (const url of [urls].flat()) {
      const found = /^(turns?):([^:?]+)(?::(\d+))?(?:\?transport=(udp|tcp))?$/.exec(url);
      if (!found || username === undefined || credential === undefined) continue;
      const [, scheme, host = '', port, transport = 'udp'] = found;
      const isSecure = scheme === 'turns';
      return {
        turnServer: [host, Number(port ?? (isSecure ? 5349 : 3478))],
        turnUsername: username,
        turnPassword: credential,
        turnTransport: isSecure ? 'tls' : transport === 'tcp' ? 'tcp' : 'udp',
      };
    }
  }
  return {};
}
