import { OpusDecoder } from 'opus-decoder';

/** A worker: Opus packets come in as messages, samples go out through the port that comes first. */

const decoder = new OpusDecoder({ channels: 1 });
let out: MessagePort | undefined;

/** An empty packet stands for one that was lost, and so does one that cannot be decoded: the listener makes it up. */
function decode(packet: ArrayBuffer): void {
  const { channelData, samplesDecoded } =
    packet.byteLength > 0
      ? decoder.decodeFrame(new Uint8Array(packet))
      : { channelData: [], samplesDecoded: 0 };
  const [samples] = channelData;
  if (!samples || samplesDecoded === 0) out?.postMessage(null);
  else out?.postMessage(samples, [samples.buffer as ArrayBuffer]);
}

addEventListener('message', ({ data, ports: [port] }: MessageEvent<ArrayBuffer>) => {
  if (!port) return decode(data);
  out = port;
  // The page is told whether it can be used at all.
  decoder.ready.then(
    () => postMessage({ ready: true }),
    (error: unknown) => postMessage({ ready: false, message: String(error) }),
  );
});
