import { Type } from 'typebox';
import type { DtlsParameters, RtpCapabilities, RtpParameters } from './media-types.ts';

/**
 * Media parameters of a browser, as mediasoup names them (docs/protocol.md §3). They are passed on to other browsers,
 * which put them into SDP line by line, so no text in them may hold a line break, and each has a maximum length.
 */

const text = (maxLength: number) => Type.String({ maxLength, pattern: String.raw`^[\x20-\x7e]*$` });
const ssrc = Type.Integer({ minimum: 1, maximum: 0xffff_ffff });
const codec = {
  mimeType: Type.String({ maxLength: 64, pattern: String.raw`^[\w-]+/[\w.-]+$` }),
  clockRate: Type.Integer({ minimum: 1, maximum: 0xffff_ffff }),
  channels: Type.Optional(Type.Integer({ minimum: 1, maximum: 8 })),
  parameters: Type.Optional(
    Type.Record(
      // TypeBox checks only the pattern of a record's key.
      Type.String({ pattern: String.raw`^[\w-]{1,64}$` }),
      Type.Union([Type.Number(), text(256), Type.Boolean(), Type.Null()]),
      { maxProperties: 32, additionalProperties: false },
    ),
  ),
  rtcpFeedback: Type.Optional(
    Type.Array(Type.Object({ type: text(64), parameter: Type.Optional(text(64)) }), {
      maxItems: 32,
    }),
  ),
};
const payloadType = Type.Integer({ minimum: 0, maximum: 127 });

/** The `rtp_parameters` of `produce`. */
export const RtpParametersSchema = Type.Unsafe<RtpParameters>(
  Type.Object(
    {
      mid: Type.Optional(text(64)),
      msid: Type.Optional(text(256)),
      codecs: Type.Array(Type.Object({ ...codec, payloadType }), { minItems: 1, maxItems: 16 }),
      headerExtensions: Type.Optional(
        Type.Array(
          Type.Object({ uri: text(256), id: Type.Integer({ minimum: 1, maximum: 255 }) }),
          {
            maxItems: 32,
          },
        ),
      ),
      encodings: Type.Optional(
        Type.Array(
          Type.Object({
            ssrc: Type.Optional(ssrc),
            rid: Type.Optional(text(64)),
            scalabilityMode: Type.Optional(text(64)),
          }),
          { maxItems: 4 },
        ),
      ),
      rtcp: Type.Optional(Type.Object({ cname: Type.Optional(text(255)) })),
    },
    { description: 'what the browser sends; a `cname` with spaces in it is replaced' },
  ),
);

/** The `rtp_capabilities` of `join`: what a browser can receive. */
export const RtpCapabilitiesSchema = Type.Unsafe<RtpCapabilities>(
  Type.Object(
    {
      codecs: Type.Array(
        Type.Object({
          ...codec,
          kind: Type.Optional(Type.Enum(['audio', 'video'])),
          preferredPayloadType: Type.Optional(payloadType),
        }),
        { maxItems: 128 },
      ),
      headerExtensions: Type.Optional(
        Type.Array(
          Type.Object({
            kind: Type.Enum(['audio', 'video']),
            uri: text(256),
            preferredId: Type.Integer({ minimum: 1, maximum: 255 }),
          }),
          { maxItems: 128 },
        ),
      ),
    },
    {
      description:
        'with `media`: what the browser can receive; absent for all that the gateway sends',
    },
  ),
);

/** The `dtls_parameters` of `connect_transport`; fingerprints as in SDP (RFC 8122 §5). */
export const DtlsParametersSchema = Type.Unsafe<DtlsParameters>(
  Type.Object(
    {
      role: Type.Optional(Type.Enum(['auto', 'client', 'server'])),
      fingerprints: Type.Array(
        Type.Object({
          algorithm: Type.Enum(['sha-1', 'sha-224', 'sha-256', 'sha-384', 'sha-512']),
          value: Type.String({ maxLength: 191, pattern: '^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2})+$' }),
        }),
        { minItems: 1, maxItems: 8 },
      ),
    },
    { description: 'fingerprints of the browser, and its role' },
  ),
);

/**
 * Returns whether a browser can receive the audio of rooms: Opus, which is 48 kHz and two channels whatever is in it
 * (RFC 7587 §7).
 */
export const canHearOpus = ({ codecs = [] }: RtpCapabilities): boolean =>
  codecs.some(
    ({ mimeType, clockRate, channels }) =>
      isOpus(mimeType) && clockRate === 48_000 && channels === 2,
  );

/** Returns whether a producer has Opus twice: mediasoup takes it, but gives it to nobody, because both get one payload type. */
export const hasOpusTwice = ({ codecs }: RtpParameters): boolean =>
  codecs.filter(({ mimeType }) => isOpus(mimeType)).length > 1;

const isOpus = (mimeType: string) => mimeType.toLowerCase() === 'audio/opus';

/** CNAME that a browser can take as the id of a stream: it writes the id into `a=msid`, where a space ends it (RFC 8830 §2). */
const CNAME = /^[\x21-\x7e]{1,255}$/;

/** Returns whether the browsers that hear a client can be told its CNAME. */
export const isUsableCname = (cname: string): boolean => CNAME.test(cname);

/**
 * Returns the parameters of a producer without a CNAME that other browsers cannot take: such a browser would refuse the offer, and all later
 * ones. mediasoup makes a CNAME in its place.
 */
export function withUsableCname(rtpParameters: RtpParameters): RtpParameters {
  const { rtcp, ...others } = rtpParameters;
  if (rtcp?.cname === undefined || isUsableCname(rtcp.cname)) return rtpParameters;
  const { cname: _, ...rest } = rtcp;
  return { ...others, rtcp: rest };
}

/** Returns the part of a browser's capabilities that matters for audio. mediasoup copies them for each consumer. */
export const capabilitiesOfAudio = ({ codecs, headerExtensions }: RtpCapabilities) => ({
  codecs: codecs?.filter(({ mimeType }) => mimeType.toLowerCase().startsWith('audio/')) ?? [],
  headerExtensions: headerExtensions?.filter(({ kind }) => kind === 'audio') ?? [],
});
