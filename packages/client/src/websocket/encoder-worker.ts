import { Application, createEncoder, type OpusEncoderHandle } from 'libopus-wasm';

/**
 * Worker that encodes Opus. First message: `{ bitrate }` in bit/s; it answers `{ ready }`. Every later one: a mono frame of 20 ms
 * at 48 kHz, answered by one packet. Frames before `ready` are dropped.
 */

let encoder: OpusEncoderHandle | undefined;

addEventListener('message', ({ data }: MessageEvent<Float32Array | { bitrate: number }>) => {
  if (data instanceof Float32Array) {
    const packet = encoder?.encodeFloat(data);
    // A copy: the packet may be a view of the encoder's memory, all of which would be cloned.
    if (packet) postMessage(packet.slice());
    return;
  }
  const options = { channels: 1, sampleRate: 48_000, application: Application.Voip } as const;
  createEncoder({ ...options, bitrate: data.bitrate }).then(
    (opened) => {
      encoder = opened;
      postMessage({ ready: true });
    },
    (error: unknown) => postMessage({ ready: false, message: String(error) }),
  );
});
