import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { AudioParts } from '../../../packages/client/src/room-audio.ts';
import { WebRtcAudio } from '../../../packages/client/src/webrtc/webrtc-audio.ts';
import { WebSocketAudio } from '../../../packages/client/src/websocket/websocket-audio.ts';

/** Audio of the browser client that is closed before it is open. Node has neither WebRTC nor Web Audio: it never opens. */

let contexts: number;
let frames: number;
let parts: AudioParts;

beforeEach(() => {
  contexts = 0;
  frames = 0;
  const refuse = (): never => {
    contexts += 1;
    throw new Error('Node has no sound.');
  };
  class NoContext {
    readonly state = refuse();
  }
  vi.stubGlobal('AudioContext', NoContext);
  parts = {
    joined: { type: 'joined', room: 'kitchen', speaker: 1, peers: [], webrtc: {} },
    wire: { sendFrame: () => (frames += 1) },
    settings: { microphone: null, muted: false },
    assets: {},
    handlers: {},
  } as unknown as AudioParts;
});
afterEach(() => {
  vi.unstubAllGlobals();
});

test('WebRTC that is closed opens no silence to prove itself with', async () => {
  const audio = new WebRtcAudio(parts);
  await expect(audio.opened()).rejects.toThrow('device not supported');
  audio.close();
  await audio.prove();
  expect(contexts).toBe(0);
});

test('sound over the WebSocket that is closed sends nothing to prove itself with', async () => {
  const audio = new WebSocketAudio(parts);
  await expect(audio.opened()).rejects.toThrow('Node has no sound.');
  audio.close();
  await audio.prove();
  expect({ contexts, frames }).toEqual({ contexts: 1, frames: 0 });
});
