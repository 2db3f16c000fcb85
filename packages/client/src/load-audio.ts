import type { AudioParts, RoomAudio } from './room-audio.ts';
import type { Transport } from './state.ts';

type OpenAudio = (parts: AudioParts) => RoomAudio;

const LOADERS: Record<Transport, () => Promise<OpenAudio>> = {
  webrtc: async () => {
    const { WebRtcAudio } = await import('./webrtc/webrtc-audio.ts');
    return (parts) => new WebRtcAudio(parts);
  },
  websocket: async () => {
    const { WebSocketAudio } = await import('./websocket/websocket-audio.ts');
    return (parts) => new WebSocketAudio(parts);
  },
};

/** Loads the code of a transport, which nobody needs before. @throws {TypeError} it cannot be had */
export const loadAudio = (transport: Transport): Promise<OpenAudio> => LOADERS[transport]();
