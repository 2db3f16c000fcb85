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

/**
 * Loads the code of a transport, which nobody needs before.
 * @throws {TypeError} it is missing, because the page is of another version than the server, or the network is down
 */
export async function loadAudio(transport: Transport): Promise<OpenAudio> {
  try {
    return await LOADERS[transport]();
  } catch (cause) {
    throw new TypeError('A part of this page cannot be loaded. Reload the page.', { cause });
  }
}
