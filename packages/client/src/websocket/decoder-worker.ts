import { OpusDecoder } from 'opus-decoder';

/** Worker that receives Opus packets as messages. It posts their samples to a port, which comes with the first message. */

/** Size up to which the decoder takes packets, bytes: 120 ms of 512 kbit/s. With one channel it would be half of that. */
const MAX_PACKET_BYTES = 7680;

const decoder = new OpusDecoder({ channels: 2 });
let out: MessagePort | undefined;

/** Posts the samples of a packet, or null if it is empty, which stands for a lost packet, or cannot be decoded: the receiver then conceals it. */
function decode(packet: ArrayBuffer): void {
  const samples = samplesOf(packet);
  if (samples) out?.postMessage(samples, [samples.buffer as ArrayBuffer]);
  else out?.postMessage(null);
}

/** Returns the mean of both channels; undefined if there is none. */
function samplesOf(packet: ArrayBuffer): Float32Array | undefined {
  if (packet.byteLength === 0 || packet.byteLength > MAX_PACKET_BYTES) return undefined;
  const { channelData } = decoder.decodeFrame(new Uint8Array(packet));
  const [left, right] = channelData;
  if (!left?.length || !right) return undefined;
  for (let i = 0; i < left.length; i += 1) left[i] = (left[i]! + right[i]!) / 2;
  return left;
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
