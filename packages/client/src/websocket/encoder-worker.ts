import { Application, createEncoder, type OpusEncoderHandle } from 'libopus-wasm';

/** Worker that receives frames of 20 ms at 48 kHz as messages, and posts Opus packets. The first message is the bitrate. */

let encoder: OpusEncoderHandle | undefined;

addEventListener('message', ({ data }: MessageEvent<Float32Array | { bitrate: number }>) => {
  if (data instanceof Float32Array) {
    const packet = encoder?.encodeFloat(data);
    // A copy: what the encoder returns may lie in its own memory.
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
