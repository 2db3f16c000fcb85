import {
  type MediaDescription,
  parseParams,
  parsePayloads,
  type SessionDescription,
} from 'sdp-transform';
import type { DtlsParameters } from '../protocol/media-types.ts';
import { isUsableCname } from '../protocol/webrtc-parameters.ts';
import { asText, parseDescription, unusable } from './sdp-text.ts';

/** WHIP: the client sends. WHEP: it receives. */
export type WhipKind = 'whip' | 'whep';

/** ICE credentials, by which the client identifies itself in STUN. */
export type IceCredentials = { ufrag: string; pwd: string };

/** One format of Opus as the client offers it (RFC 7587 §7). */
type OfferedOpus = {
  payloadType: number;
  /** Numeric format parameters; others are left out. */
  parameters: ReadonlyMap<string, number>;
};

export type HeaderExtension = { uri: string; id: number };

/** The parts of an offer that the gateway needs. */
export type Offer = {
  /** The whole description, because the answer needs a section for each of its sections. */
  session: SessionDescription;
  /** Index of the audio section. */
  audio: number;
  /** Mids of the BUNDLE group that has the audio section in it; empty if there is none. */
  bundle: string[];
  mid: string | undefined;
  ice: IceCredentials;
  /** The `ice-ufrag` of the session and of each section of the bundle: a client may name any of them. */
  ufrags: ReadonlySet<string>;
  /** DTLS role and fingerprints of the client. */
  dtls: DtlsParameters;
  opus: OfferedOpus;
  extensions: HeaderExtension[];
  /** SSRC of the client's stream; undefined if the offer does not have it. */
  ssrc: number | undefined;
  cname: string | undefined;
  /** WHEP: longest packet that the client accepts, ms; undefined if there is no limit. */
  maxPacketMs: number | undefined;
  isRtcpMuxOnly: boolean;
};

const MAX_SECTIONS = 16;
/** RFC 5888 §4 and RFC 4566 §9: a token; no client has mids of more than a few characters. */
const MID = /^[\w!#$%&'*+.^`{|}~-]{1,64}$/;
/** Payload types that collide with RTCP on the same port (RFC 5761 §4). */
const RTCP_TYPES = { from: 64, to: 95 };
/** Bytes of each fingerprint that DTLS may be asked for (RFC 8122 §5). */
const FINGERPRINT_BYTES = {
  'sha-1': 20,
  'sha-224': 28,
  'sha-256': 32,
  'sha-384': 48,
  'sha-512': 64,
} as const;
type FingerprintAlgorithm = keyof typeof FINGERPRINT_BYTES;
/** Directions that a client may offer: the first is that of the RFCs, and no attribute means the second (RFC 4566 §6). */
const DIRECTIONS = { whip: ['sendonly', 'sendrecv'], whep: ['recvonly', 'sendrecv'] } as const;
/** Length of the packets of a mix, ms. A client whose `maxptime` is shorter cannot hear one. */
const MIX_PACKET_MS = 20;
/** Bounds of RFC 8839 §5.4. */
const UFRAG_CHARACTERS = { min: 4, max: 256 };
const PWD_CHARACTERS = { min: 22, max: 256 };
const ICE_TEXT = /^[\x21-\x7e]*$/;

/**
 * Reads an offer.
 * @throws {PartylineError} `bad_request` if it is not SDP, `unprocessable` if it cannot be answered
 */
export function readOffer(text: string, kind: WhipKind): Offer {
  const session = parseDescription(text);
  const { media } = session;
  if (media.length > MAX_SECTIONS) throw unusable(`more than ${MAX_SECTIONS} media sections`);
  const sections = media.map((section) => section.mid).filter((mid) => mid !== undefined);
  if (!sections.every((mid) => MID.test(asText(mid))))
    throw unusable('an "a=mid" value is not a token');
  const audio = findAudio(media);
  const section = media[audio]!;
  checkProtocol(section);
  if (!section.rtcpMux) throw unusable('the audio has no "a=rtcp-mux"');
  checkDirection(section.direction ?? session.direction ?? 'sendrecv', kind);
  if (session.icelite)
    throw unusable(
      '"a=ice-lite" is not accepted: the gateway uses ICE Lite, so the client must use full ICE',
    );
  const mid = section.mid === undefined ? undefined : asText(section.mid);
  const bundle = bundleWith(session, mid);
  const carrier = media.find((other) => other.mid !== undefined && asText(other.mid) === bundle[0]);
  const levels = [section, session, ...(carrier ? [carrier] : [])];
  return {
    session,
    audio,
    bundle,
    mid,
    ice: readIce(levels),
    ufrags: ufragsOf([...levels, ...media.filter((other) => isInBundle(other, bundle))]),
    dtls: readDtls(levels),
    opus: findOpus(section),
    extensions: readExtensions(section, session),
    ssrc: readSsrc(section),
    cname: readCname(section),
    maxPacketMs: kind === 'whep' ? readMaxPacketMs(section) : undefined,
    isRtcpMuxOnly: /^a=rtcp-mux-only\s*$/m.test(text.split(/^m=/m)[audio + 1] ?? ''),
  };
}

/** @throws {PartylineError} `unprocessable` if there is none, or more than one */
function findAudio(media: MediaDescription[]): number {
  const offered = media.flatMap((section, index) => {
    const isOffered = section.port !== 0 || section.bundleOnly;
    return section.type === 'audio' && isOffered ? [index] : [];
  });
  if (offered.length > 1) throw unusable('more than one audio section');
  const [audio] = offered;
  if (audio === undefined) throw unusable('no audio is offered');
  return audio;
}

function checkProtocol({ protocol }: MediaDescription): void {
  if (!/^((UDP|TCP)\/TLS\/)?RTP\/SAVPF?$/.test(protocol)) {
    throw unusable('the audio must be UDP/TLS/RTP/SAVPF');
  }
}

function checkDirection(direction: string, kind: WhipKind): void {
  const allowed: readonly string[] = DIRECTIONS[kind];
  if (!allowed.includes(direction)) {
    throw unusable(`the audio is "${direction}", not "${allowed.join('" or "')}"`);
  }
}

/** Returns the mids of the group that has the audio: one transport carries them all. */
function bundleWith({ groups = [] }: SessionDescription, mid: string | undefined): string[] {
  if (mid === undefined) return [];
  const bundles = groups.filter(({ type }) => type === 'BUNDLE');
  const mids = bundles.map((group) => asText(group.mids).trim().split(/\s+/));
  return mids.find((group) => group.includes(mid)) ?? [];
}

const isInBundle = ({ mid }: MediaDescription, bundle: string[]) =>
  mid !== undefined && bundle.includes(asText(mid));

/** Attributes of the section itself, of the session, or of the section that carries the bundle. */
type Level = Pick<MediaDescription, 'iceUfrag' | 'icePwd' | 'fingerprint' | 'setup'>;

function readIce(levels: Level[]): IceCredentials {
  const level = levels.find(({ iceUfrag }) => iceUfrag !== undefined);
  const credentials = readIceCredentials(level?.iceUfrag, level?.icePwd);
  if (!credentials) throw unusable('no ICE credentials');
  return credentials;
}

export const ufragsOf = (levels: Level[]): ReadonlySet<string> =>
  new Set(levels.flatMap(({ iceUfrag }) => (iceUfrag === undefined ? [] : [asText(iceUfrag)])));

/**
 * Checks ICE credentials; sdp-transform parses digits as numbers.
 * @returns undefined if one of the two is missing
 * @throws {PartylineError} `unprocessable` if they are too short or too long
 */
export function readIceCredentials(
  ufrag: string | number | undefined,
  pwd: string | number | undefined,
): IceCredentials | undefined {
  if (ufrag === undefined || pwd === undefined) return undefined;
  const credentials = { ufrag: asText(ufrag), pwd: asText(pwd) };
  const isGood =
    isIceText(credentials.ufrag, UFRAG_CHARACTERS) && isIceText(credentials.pwd, PWD_CHARACTERS);
  if (!isGood) throw unusable('the ICE credentials are too short, too long, or not printable');
  return credentials;
}

const isIceText = (text: string, { min, max }: { min: number; max: number }) =>
  text.length >= min && text.length <= max && ICE_TEXT.test(text);

function readDtls(levels: Level[]): DtlsParameters {
  const setup = levels.find((level) => level.setup !== undefined)?.setup ?? 'actpass';
  if (setup !== 'actpass' && setup !== 'active' && setup !== 'passive') {
    throw unusable('"a=setup" must be "actpass", "active" or "passive"');
  }
  const fingerprint = levels.find((level) => level.fingerprint !== undefined)?.fingerprint;
  if (!fingerprint) throw unusable('no fingerprint');
  const algorithm = asText(fingerprint.type).toLowerCase();
  const value = asText(fingerprint.hash).toUpperCase();
  if (!isAlgorithm(algorithm)) throw unusable('the fingerprint is of an unknown algorithm');
  const bytes = value.split(':');
  const isWhole = bytes.length === FINGERPRINT_BYTES[algorithm];
  if (!isWhole || !bytes.every((byte) => /^[0-9A-F]{2}$/.test(byte))) {
    throw unusable('the fingerprint is no hash of its algorithm');
  }
  const role = setup === 'passive' ? 'server' : 'client';
  return { role, fingerprints: [{ algorithm, value }] };
}

const isAlgorithm = (name: string): name is FingerprintAlgorithm =>
  Object.hasOwn(FINGERPRINT_BYTES, name);

/** Returns the first Opus format in the client's order of preference. */
function findOpus({ payloads = '', rtp, fmtp }: MediaDescription): OfferedOpus {
  // The first one of a payload type counts.
  const codecs = new Map(rtp.toReversed().map((codec) => [codec.payload, codec]));
  for (const payloadType of parsePayloads(asText(payloads))) {
    const codec = codecs.get(payloadType);
    const isOpus =
      asText(codec?.codec ?? '').toLowerCase() === 'opus' &&
      codec?.rate === 48_000 &&
      codec.encoding === 2;
    if (!isOpus || !isUsable(payloadType)) continue;
    const configs = fmtp.filter(({ payload }) => payload === payloadType);
    return { payloadType, parameters: readParameters(configs.map(({ config }) => config)) };
  }
  throw unusable('no opus/48000/2 is offered');
}

const isUsable = (payloadType: number) =>
  Number.isInteger(payloadType) &&
  payloadType >= 0 &&
  payloadType <= 127 &&
  !(payloadType >= RTCP_TYPES.from && payloadType <= RTCP_TYPES.to);

function readParameters(configs: string[]): ReadonlyMap<string, number> {
  const parameters = new Map<string, number>();
  for (const config of configs) {
    for (const [name, value] of Object.entries(parseParams(asText(config)))) {
      if (typeof value === 'number') parameters.set(name.trim().toLowerCase(), value);
    }
  }
  return parameters;
}

/** RFC 8285 §4: ids 1 to 14 have one byte, more have two. */
function readExtensions(section: MediaDescription, session: SessionDescription): HeaderExtension[] {
  const offered = [...(section.ext ?? []), ...(session.ext ?? [])];
  return offered.flatMap(({ uri, value, 'encrypt-uri': encrypted }) =>
    encrypted === undefined && value >= 1 && value <= 255 ? [{ uri: asText(uri), id: value }] : [],
  );
}

function readSsrc({ ssrcs = [] }: MediaDescription): number | undefined {
  const [ssrc] = ssrcs.map(({ id }) => id);
  return ssrc !== undefined && Number.isInteger(ssrc) && ssrc >= 1 && ssrc <= 0xffff_ffff
    ? ssrc
    : undefined;
}

/** Returns the CNAME if the browsers that hear the client can be told it. */
function readCname({ ssrcs = [] }: MediaDescription): string | undefined {
  const named = ssrcs.find(({ attribute }) => attribute === 'cname');
  const cname = named?.value === undefined ? '' : asText(named.value);
  return isUsableCname(cname) ? cname : undefined;
}

/** @throws {PartylineError} `unprocessable` if it is shorter than a packet of a mix */
function readMaxPacketMs({ maxptime, fmtp }: MediaDescription): number | undefined {
  // Some clients put it among the format parameters.
  const inFormat = readParameters(fmtp.map(({ config }) => config)).get('maxptime');
  const max = maxptime ?? inFormat ?? NaN;
  if (Number.isNaN(max) || max <= 0) return undefined;
  if (max < MIX_PACKET_MS) throw unusable(`"a=maxptime" is less than ${MIX_PACKET_MS}`);
  return max;
}
