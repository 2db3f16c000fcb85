/** WebRTC types that are part of the protocol: those of mediasoup, and {@link IceServer}. */
export type {
  DtlsParameters,
  IceCandidate,
  IceParameters,
  RtpCapabilities,
  RtpParameters,
  SrtpParameters,
} from 'mediasoup/types';

/** TURN server that a browser may use: an RTCIceServer of the WebRTC API. */
export type IceServer = { urls: string[]; username: string; credential: string };
