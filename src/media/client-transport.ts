import type {
  DtlsParameters,
  IceCandidate,
  IceParameters,
  Router,
  WebRtcServer,
  WebRtcTransport,
} from 'mediasoup/types';

/** Router and WebRtcServer on which a transport is opened. */
export type TransportHost = { router: Router; webRtcServer: WebRtcServer };

export type ClientTransportOptions = {
  dtlsParameters: DtlsParameters;
  /** Time without a consent check of the client after which its path is lost (RFC 7675 §5.1): 10 to 60 s. */
  consentMs: number;
};

/**
 * - `opening`: the client has not connected yet
 * - `open`: ICE has a path that the client has lately confirmed, and DTLS is up
 * - `lost`: the client has not confirmed its path for a while; it may come back, with a restart of ICE or without
 * - `dead`: its media worker died, and the client must open another
 * - `ended`: the client has ended DTLS, or it failed
 * - `cut`: the client sent too much, or did not read, and was cut off
 */
export type PathState = 'opening' | 'open' | 'lost' | 'dead' | 'ended' | 'cut';

const ICE_PATHS = new Set<WebRtcTransport['iceState']>(['connected', 'completed']);
const DTLS_ENDS = new Set<WebRtcTransport['dtlsState']>(['closed', 'failed']);

/** A WebRTC transport whose client sent all its parameters in one offer. */
export class ClientTransport {
  /** Called when {@link state} may have changed. */
  onChange: () => void = () => {};
  readonly transport: WebRtcTransport;
  readonly #router: Router;
  #wasOpen = false;
  #isClosed = false;

  private constructor(router: Router, transport: WebRtcTransport) {
    this.#router = router;
    this.transport = transport;
    transport.on('icestatechange', () => this.#changed());
    transport.on('dtlsstatechange', () => this.#changed());
    transport.observer.once('close', () => this.#changed());
  }

  /** @throws {Error} if the media worker refuses the parameters, dies or hangs */
  static async open(
    { router, webRtcServer }: TransportHost,
    { dtlsParameters, consentMs }: ClientTransportOptions,
  ): Promise<ClientTransport> {
    const transport = await router.createWebRtcTransport({
      webRtcServer,
      enableUdp: true,
      enableTcp: true,
      preferUdp: true,
      iceConsentTimeout: Math.round(consentMs / 1000),
    });
    try {
      await transport.connect({ dtlsParameters });
      return new ClientTransport(router, transport);
    } catch (fault) {
      transport.close();
      throw fault;
    }
  }

  get state(): PathState {
    const { closed, iceState, dtlsState } = this.transport;
    if (this.#isClosed) return 'ended';
    // Before DTLS, which mediasoup also reports as closed when the router has.
    if (closed) return this.#router.closed ? 'dead' : 'cut';
    if (DTLS_ENDS.has(dtlsState)) return 'ended';
    if (ICE_PATHS.has(iceState) && dtlsState === 'connected') return 'open';
    return this.#wasOpen ? 'lost' : 'opening';
  }

  get iceParameters(): IceParameters {
    return this.transport.iceParameters;
  }

  get iceCandidates(): IceCandidate[] {
    return this.transport.iceCandidates;
  }

  get dtlsParameters(): DtlsParameters {
    return this.transport.dtlsParameters;
  }

  /** Gives the client new ICE credentials to come back with. @throws {Error} if the media worker is gone */
  async restartIce(): Promise<void> {
    await this.transport.restartIce();
  }

  /** Ends DTLS, and answers no more checks (RFC 7675 §5.2). Idempotent. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.transport.close();
  }

  #changed(): void {
    if (this.#isClosed) return;
    this.#wasOpen ||= this.state === 'open';
    this.onChange();
  }
}
