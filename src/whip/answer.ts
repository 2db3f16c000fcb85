import { type MediaDescription, type SessionDescription, write } from 'sdp-transform';
import type { DtlsParameters, IceCandidate, IceParameters } from '../protocol/media-types.ts';
import { asText } from './sdp-text.ts';
import type { HeaderExtension, Offer, WhipKind } from './offer.ts';

/** The gateway's end of a transport. */
export type TransportDescription = {
  iceParameters: IceParameters;
  iceCandidates: IceCandidate[];
  dtlsParameters: DtlsParameters;
};

/** The stream that the gateway sends. */
export type SentStream = { ssrc: number; cname: string };

/** The ICE options of every answer and fragment: candidates of the client may come later, and make no difference. */
const ICE_OPTIONS = 'trickle';
/** Format parameters of the client that the gateway honours, and repeats in the answer (RFC 7587 §7.1). */
const KEPT_PARAMETERS = ['stereo', 'sprop-stereo', 'usedtx', 'cbr', 'maxplaybackrate'];

/**
 * Writes the answer to an offer, of which only the audio is accepted.
 * @param extensions used header extensions, all of which were offered
 * @param sent the gateway's stream, if it sends one
 */
export function writeAnswer(
  offer: Offer,
  kind: WhipKind,
  transport: TransportDescription,
  extensions: HeaderExtension[],
  sent?: SentStream,
): string {
  const media = offer.session.media.map((section, index) => {
    if (index === offer.audio) return answerAudio(offer, kind, transport, extensions, sent);
    return isCarrier(offer, section) ? answerCarrier(offer, section, transport) : reject(section);
  });
  const mids = media.flatMap(({ port, mid }) => (port === 0 || mid === undefined ? [] : [mid]));
  const session: SessionDescription = {
    version: 0,
    origin: {
      username: '-',
      sessionId: Math.floor(Math.random() * Number.MAX_SAFE_INTEGER),
      sessionVersion: 1,
      netType: 'IN',
      ipVer: 4,
      address: '0.0.0.0',
    },
    name: '-',
    timing: { start: 0, stop: 0 },
    icelite: 'ice-lite',
    ...(mids.length > 0 && offer.bundle.length > 0 && { groups: [bundleOf(mids)] }),
    media,
  };
  return write(session);
}

/** Writes the answer to an ICE restart (RFC 8840 §4.4): the gateway's new credentials, and its candidates. */
export function writeRestart(
  offer: Offer,
  { iceParameters, iceCandidates }: TransportDescription,
): string {
  const { type, protocol, port } = offer.session.media[offer.audio]!;
  const payloads = String(offer.opus.payloadType);
  const section = { type, port: port || DISCARD_PORT, protocol, payloads, ...midOf(offer.mid) };
  const ice = { ...describeIce(iceParameters, iceCandidates), iceOptions: undefined };
  const session = {
    icelite: 'ice-lite',
    iceOptions: ICE_OPTIONS,
    ...(offer.mid !== undefined && { groups: [bundleOf([offer.mid])] }),
    media: [{ ...section, rtp: [], fmtp: [], ...ice }],
  };
  const lines = write(session as unknown as SessionDescription).split('\r\n');
  // A fragment has neither version nor name, which are always written.
  return `${lines.filter((line) => /^[am]=/.test(line)).join('\r\n')}\r\n`;
}

/** Placeholder for a port; candidates carry the real one (RFC 8839 §4.3.1). */
const DISCARD_PORT = 9;

const bundleOf = (mids: string[]) => ({ type: 'BUNDLE', mids: mids.join(' ') });

const midOf = (mid: string | undefined) => (mid === undefined ? {} : { mid });

function answerAudio(
  offer: Offer,
  kind: WhipKind,
  transport: TransportDescription,
  extensions: HeaderExtension[],
  sent: SentStream | undefined,
): MediaDescription {
  const { payloadType, parameters } = offer.opus;
  const kept = KEPT_PARAMETERS.flatMap((name) =>
    parameters.has(name) ? [`${name}=${parameters.get(name)}`] : [],
  );
  return {
    ...accepted(offer, offer.session.media[offer.audio]!, String(payloadType), transport),
    direction: kind === 'whip' ? 'recvonly' : 'sendonly',
    rtp: [{ payload: payloadType, codec: 'opus', rate: 48_000, encoding: 2 }],
    fmtp: [{ payload: payloadType, config: ['minptime=10', 'useinbandfec=1', ...kept].join(';') }],
    ...(extensions.length > 0 && {
      ext: extensions.map(({ uri, id }) => ({ uri, value: id })),
    }),
    ...(offer.isRtcpMuxOnly && { invalid: [{ value: 'rtcp-mux-only' }] }),
    ...(sent && describeStream(sent)),
  };
}

/** Returns an empty section for the one that carries the client's bundle. */
function answerCarrier(
  offer: Offer,
  section: MediaDescription,
  transport: TransportDescription,
): MediaDescription {
  return {
    ...accepted(offer, section, section.payloads ?? '', transport),
    direction: 'inactive',
    rtp: section.rtp,
    fmtp: section.fmtp,
    ...(offer.isRtcpMuxOnly && { invalid: [{ value: 'rtcp-mux-only' }] }),
  };
}

/** True for a section that the gateway does not accept, but that carries the transport of the audio. */
const isCarrier = ({ bundle }: Offer, { type, mid, port }: MediaDescription) =>
  type === 'video' &&
  port !== 0 &&
  bundle.length > 1 &&
  mid !== undefined &&
  asText(mid) === bundle[0];

const accepted = (
  { dtls }: Offer,
  { type, protocol, mid }: MediaDescription,
  payloads: string,
  { iceParameters, iceCandidates, dtlsParameters }: TransportDescription,
) => ({
  type,
  port: DISCARD_PORT,
  protocol,
  payloads,
  connection: { version: 4, ip: '0.0.0.0' },
  ...midOf(mid),
  ...describeIce(iceParameters, iceCandidates),
  fingerprint: describeFingerprint(dtlsParameters),
  setup: dtls.role === 'server' ? 'active' : 'passive',
  rtcpMux: 'rtcp-mux' as const,
  rtcpRsize: 'rtcp-rsize' as const,
});

/** Returns a rejected section, with media and formats alone (RFC 3264 §6). */
const reject = ({ type, protocol, payloads = '', mid }: MediaDescription): MediaDescription => ({
  type,
  port: 0,
  protocol,
  payloads,
  connection: { version: 4, ip: '0.0.0.0' },
  ...midOf(mid),
  direction: 'inactive',
  rtp: [],
  fmtp: [],
});

const describeIce = (
  { usernameFragment, password }: IceParameters,
  candidates: IceCandidate[],
) => ({
  iceUfrag: usernameFragment,
  icePwd: password,
  iceOptions: ICE_OPTIONS,
  candidates: udpFirst(candidates).map((candidate, index) => ({
    // FFmpeg reads what follows the first "udp" of the line: mediasoup's "udpcandidate" has one.
    foundation: String(index + 1),
    component: 1,
    transport: candidate.protocol,
    priority: candidate.priority,
    ip: candidate.address,
    port: candidate.port,
    type: candidate.type,
    ...(candidate.tcpType && { tcptype: candidate.tcpType }),
  })),
  endOfCandidates: 'end-of-candidates' as const,
});

const udpFirst = (candidates: IceCandidate[]) =>
  candidates.toSorted((a, b) => Number(a.protocol !== 'udp') - Number(b.protocol !== 'udp'));

/** Returns the SHA-256 fingerprint, which every client supports; mediasoup has one for each algorithm. */
function describeFingerprint({ fingerprints }: DtlsParameters): { type: string; hash: string } {
  const best = fingerprints.find(({ algorithm }) => algorithm === 'sha-256') ?? fingerprints[0];
  if (!best) throw new Error('a transport has no fingerprint');
  return { type: best.algorithm, hash: best.value };
}

const describeStream = ({ ssrc, cname }: SentStream) => ({
  msid: [{ id: 'partyline', appdata: 'audio' }],
  ssrcs: [{ id: ssrc, attribute: 'cname', value: cname }],
});
