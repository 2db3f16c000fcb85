import { openWorker } from './open-worker.ts';

/** Bit rate for a voice, bit/s. */
const BITRATE = 32_000;
const RATE_HZ = 48_000;
const FRAME_US = 20_000;

/** Encoder of frames of 20 ms at 48 kHz; it passes the Opus packets to a function that {@link openEncoder} was given. */
export type Encoder = {
  encode(frame: Float32Array<ArrayBuffer>): void;
  close(): void;
};

type TakePacket = (packet: Uint8Array<ArrayBuffer>) => void;

const CONFIG = {
  codec: 'opus',
  sampleRate: RATE_HZ,
  numberOfChannels: 1,
  bitrate: BITRATE,
  opus: { frameDuration: FRAME_US },
} as const satisfies AudioEncoderConfig;

/**
 * Opens the browser's encoder, or libopus in a worker if the browser cannot encode Opus.
 * @param workerUrl URL of that worker
 * @throws {Error} if the worker does not start
 */
export async function openEncoder(workerUrl: string | URL, take: TakePacket): Promise<Encoder> {
  return (await openBrowserEncoder(take)) ?? openWorkerEncoder(workerUrl, take);
}

async function openBrowserEncoder(take: TakePacket): Promise<Encoder | undefined> {
  if (!('AudioEncoder' in globalThis)) return undefined;
  const { supported } = await AudioEncoder.isConfigSupported(CONFIG).catch(() => ({
    supported: false,
  }));
  if (supported !== true) return undefined;
  let frames = 0;
  const open = () => {
    const opened = new AudioEncoder({
      output: (chunk) => {
        const packet = new Uint8Array(chunk.byteLength);
        chunk.copyTo(packet);
        take(packet);
      },
      // The browser has closed the encoder; the next frame opens another.
      error: () => undefined,
    });
    opened.configure(CONFIG);
    return opened;
  };
  let encoder = open();
  return {
    encode: (data) => {
      if (encoder.state === 'closed') encoder = open();
      const timestamp = frames * FRAME_US;
      frames += 1;
      const audio = new AudioData({
        format: 'f32-planar',
        sampleRate: RATE_HZ,
        numberOfFrames: data.length,
        numberOfChannels: 1,
        timestamp,
        data,
      });
      encoder.encode(audio);
      audio.close();
    },
    close: () => {
      if (encoder.state !== 'closed') encoder.close();
    },
  };
}

async function openWorkerEncoder(url: string | URL, take: TakePacket): Promise<Encoder> {
  const worker = await openWorker(url, { bitrate: BITRATE });
  worker.addEventListener('message', ({ data }: MessageEvent<Uint8Array<ArrayBuffer>>) =>
    take(data),
  );
  return {
    encode: (frame) => worker.postMessage(frame, [frame.buffer]),
    close: () => worker.terminate(),
  };
}
