import { defer } from './deferred.ts';
import { limitLoading } from './loading-time.ts';
import type { AudioParts, RoomAudio } from './room-audio.ts';
import type { Transport } from './state.ts';
import { WebSocketAudio } from './websocket/websocket-audio.ts';

type OpenAudio = (parts: AudioParts) => RoomAudio;

/**
 * Loads the code of a transport. The code of WebRTC, which needs mediasoup-client, is loaded when it is first used. The
 * code of audio over the WebSocket is part of the client, so that it is available when the other cannot be loaded. (Firefox
 * does not repeat a failed load until the page is reloaded.)
 * @throws {TypeError} if the code is missing, because the page is of another version than the server, or the network is down or too slow
 */
export async function loadAudio(transport: Transport): Promise<OpenAudio> {
  if (transport === 'websocket') return (parts) => new WebSocketAudio(parts);
  const late = defer<never>();
  const endLimit = limitLoading('webrtc-audio', late.reject);
  try {
    const { WebRtcAudio } = await Promise.race([import('./webrtc/webrtc-audio.ts'), late.promise]);
    return (parts) => new WebRtcAudio(parts);
  } catch (cause) {
    throw new TypeError('A part of this page cannot be loaded. Reload the page.', { cause });
  } finally {
    endLimit();
  }
}
