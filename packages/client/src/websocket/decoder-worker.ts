import { OpusDecoder } from 'opus-decoder';

/** Worker that receives Opus packets as messages. It posts their samples to a port, which comes with the first message. */

const decoder = new OpusDecoder({ channels: 1 });
let out: MessagePort | undefined;

/** Posts the samples of a packet, or null if it is empty, which stands for a lost packet, or cannot be decoded: the receiver then conceals it. */
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
