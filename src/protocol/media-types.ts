/** WebRTC shapes as they travel on the wire: mediasoup's own, and the browser's RTCIceServer. */
export type {
  DtlsParameters,
  IceCandidate,
  IceParameters,
  RtpCapabilities,
  RtpParameters,
  SrtpParameters,
} from 'mediasoup/types';

/** A TURN server that a browser may use; RTCIceServer of the WebRTC API. */
export type IceServer = { urls: string[]; username: string; credential: string };
