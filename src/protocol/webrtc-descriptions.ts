import { type Static, Type } from 'typebox';
import { exactly, mediasoupObject, string } from './fields.ts';
import type {
  DtlsParameters,
  IceCandidate,
  IceParameters,
  IceServer,
  RtpCapabilities,
  RtpParameters,
} from './media-types.ts';

/** Parts of the gateway's messages to browsers, as mediasoup-client takes them (docs/protocol.md §3). */

export const iceParameters = mediasoupObject<IceParameters>("the transport's ICE parameters");

/** Field with the TURN servers of a client; absent if there are none. */
export const iceServers = Type.Optional(
  Type.Array(mediasoupObject<IceServer>('an RTCIceServer'), {
    description:
      'TURN servers, each `{urls, username, credential}`; the credentials are valid for a day',
  }),
);

const transport = (description: string) =>
  exactly(
    {
      id: string('id of the transport, the `transport_id` of other messages'),
      ice_parameters: iceParameters,
      ice_candidates: Type.Array(mediasoupObject<IceCandidate>('an ICE candidate'), {
        description: 'addresses at which the gateway takes media',
      }),
      dtls_parameters: mediasoupObject<DtlsParameters>('fingerprints of the gateway, and its role'),
      ice_servers: iceServers,
    },
    { title: 'transport', description },
  );
export const TransportDescriptionSchema = transport('a transport of a browser');
export type TransportDescription = Static<typeof TransportDescriptionSchema>;

export const WebRtcDescriptionSchema = exactly(
  {
    router_rtp_capabilities: mediasoupObject<RtpCapabilities>(
      'codecs and header extensions of the router',
    ),
    send_transport: transport('transport over which it sends'),
    recv_transport: transport('transport over which it receives'),
  },
  { description: 'to a browser: what it needs to send and receive' },
);
export type WebRtcDescription = Static<typeof WebRtcDescriptionSchema>;

/** Consumer of a peer, which a browser hears once it has asked to resume it. */
export const consumerDescription = {
  consumer_id: string('id of the consumer'),
  producer_id: string('id of the producer from which it takes its audio'),
  peer: string('peer whose audio it has'),
  kind: Type.Literal('audio', { description: 'the kind of media' }),
  rtp_parameters: mediasoupObject<RtpParameters>('what the gateway sends of it'),
};
export const ConsumerDescriptionSchema = exactly(consumerDescription, { title: 'consumer' });
export type ConsumerDescription = Static<typeof ConsumerDescriptionSchema>;
