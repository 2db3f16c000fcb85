import type { JoinedMessage } from './attack.ts';

/** First message of the bare server: it names a transport, without which attacks on WebRTC would send nothing. */
export const BARE_JOINED: { type: 'joined' } & JoinedMessage = {
  type: 'joined',
  webrtc: {
    send_transport: {
      id: '00000000-0000-4000-8000-000000000000',
      dtls_parameters: {
        role: 'auto',
        fingerprints: [{ algorithm: 'sha-256', value: Array<string>(32).fill('00').join(':') }],
      },
    },
  },
};
