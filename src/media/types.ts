/** mediasoup's own shapes, as they travel on the wire; so that only this folder imports mediasoup. */
export type {
  DtlsParameters,
  IceCandidate,
  IceParameters,
  RtpCapabilities,
  RtpParameters,
  SrtpParameters,
} from 'mediasoup/types';
