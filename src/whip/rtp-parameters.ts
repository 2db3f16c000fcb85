import type { RtpParameters } from '../protocol/media-types.ts';
import type { HeaderExtension, Offer } from './offer.ts';
import { unusable } from './sdp-text.ts';

const MID_EXTENSION = 'urn:ietf:params:rtp-hdrext:sdes:mid';
/** Header extensions that the gateway uses. */
const USED_EXTENSIONS = [MID_EXTENSION, 'urn:ietf:params:rtp-hdrext:ssrc-audio-level'];
/** RFC 8285 §4.2: larger ids need two-byte extensions, which not all receivers of the packets support. */
const MAX_ID = 14;

/** Returns the used header extensions of an offer, each once and with a unique id. */
export function usedExtensions({ extensions }: Offer): HeaderExtension[] {
  const used: HeaderExtension[] = [];
  for (const wanted of USED_EXTENSIONS) {
    const found = extensions.find(({ uri, id }) => uri === wanted && id <= MAX_ID);
    if (found && !used.some(({ id }) => id === found.id)) used.push(found);
  }
  return used;
}

/**
 * Returns the RTP parameters of a client's stream for the media worker.
 * @throws {PartylineError} `unprocessable` if its packets cannot be identified
 */
export function describeInput(offer: Offer): RtpParameters {
  const { mid, ssrc, cname, opus } = offer;
  const extensions = usedExtensions(offer);
  const isToldByMid = mid !== undefined && extensions.some(({ uri }) => uri === MID_EXTENSION);
  if (ssrc === undefined && !isToldByMid) {
    throw unusable('the audio has neither "a=ssrc" nor the header extension of its mid');
  }
  return {
    ...(isToldByMid && { mid }),
    codecs: [
      {
        mimeType: 'audio/opus',
        payloadType: opus.payloadType,
        clockRate: 48_000,
        channels: 2,
        parameters: { useinbandfec: 1 },
      },
    ],
    headerExtensions: extensions,
    encodings: [ssrc === undefined ? {} : { ssrc }],
    ...(cname !== undefined && { rtcp: { cname } }),
  } as RtpParameters;
}

/** Returns true if the format parameters allow gaps in silence (`usedtx`, RFC 7587 §6.1). */
export const wantsSparse = ({ opus }: Offer): boolean => opus.parameters.get('usedtx') === 1;

/** Returns true if a client may be sent only packets of up to 20 ms, because it accepts less than the longest of Opus. */
export const takesShortOnly = ({ maxPacketMs }: Offer): boolean =>
  maxPacketMs !== undefined && maxPacketMs < LONGEST_PACKET_MS;

/** Longest packet of Opus, ms (RFC 6716 §3.2.5). */
const LONGEST_PACKET_MS = 120;
