import { OpusDecoder } from 'opus-decoder';

/** Worker that receives Opus packets as messages, and posts samples to the port that it is sent first. */

const decoder = new OpusDecoder({ channels: 1 });
let out: MessagePort | undefined;

/** An empty packet stands for a lost one, as does one that cannot be decoded: the listener conceals it. */
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
  // Tells the page whether the decoder can be used.
  decoder.ready.then(
    () => postMessage({ ready: true }),
    (error: unknown) => postMessage({ ready: false, message: String(error) }),
  );
});
