import { afterEach, expect, test, vi } from 'vitest';
import { loadAudio } from '../../../../packages/client/src/load-audio.ts';

/** The code of the transports on a network over which that of WebRTC never comes. */

vi.mock(
  '../../../../packages/client/src/webrtc/webrtc-audio.ts',
  () => new Promise(() => undefined),
);

afterEach(() => {
  vi.useRealTimers();
});

test('WebRTC whose code does not load is given up after 30 s, and the WebSocket needs no code besides the client’s', async () => {
  vi.useFakeTimers();
  const failure = loadAudio('webrtc').catch((error: unknown) => error);
  expect(await loadAudio('websocket')).toBeTypeOf('function');
  await vi.advanceTimersByTimeAsync(30_000);
  expect(await failure).toMatchObject({
    message: 'A part of this page cannot be loaded. Reload the page.',
  });
  expect(vi.getTimerCount()).toBe(0);
});
