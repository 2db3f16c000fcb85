/**
 * A peer whose WebRTC is libwebrtc in Node (`@roamhq/wrtc`): speaks a tone over WHIP, and writes what it hears over WHEP to stdout
 * (16 bits, mono, 48 kHz). `node node-webrtc-peer.ts WHIP_ADDRESS WHEP_ADDRESS KEY HZ`
 */
import wrtc from '@roamhq/wrtc';

const { RTCPeerConnection, nonstandard } = wrtc;
const [whipAddress = '', whepAddress = '', key = '', hz = ''] = process.argv.slice(2);

const RATE_HZ = 48_000;
/** libwebrtc takes sound in pieces of 10 ms. */
const PIECE_MS = 10;
const PIECE_SAMPLES = (RATE_HZ * PIECE_MS) / 1000;
const AMPLITUDE = 0.3;

/** A track of a sine. */
function openTone(frequencyHz: number): MediaStreamTrack {
  const source = new nonstandard.RTCAudioSource();
  const startMs = performance.now();
  let sent = 0;
  setInterval(() => {
    while (startMs + (1000 * sent) / RATE_HZ <= performance.now()) {
      const samples = Int16Array.from({ length: PIECE_SAMPLES }, (_, i) =>
        Math.round(
          32_767 * AMPLITUDE * Math.sin((2 * Math.PI * frequencyHz * (sent + i)) / RATE_HZ),
        ),
      );
      source.onData({
        samples,
        sampleRate: RATE_HZ,
        bitsPerSample: 16,
        channelCount: 1,
        numberOfFrames: PIECE_SAMPLES,
      });
      sent += PIECE_SAMPLES;
    }
  }, PIECE_MS);
  return source.createTrack();
}

async function connect(connection: RTCPeerConnection, address: string): Promise<void> {
  const gathered = new Promise<void>((resolve) => {
    connection.addEventListener('icegatheringstatechange', () => {
      if (connection.iceGatheringState === 'complete') resolve();
    });
  });
  await connection.setLocalDescription(await connection.createOffer());
  await gathered;
  const response = await fetch(address, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/sdp' },
    body: connection.localDescription?.sdp ?? '',
  });
  const sdp = await response.text();
  if (response.status !== 201) throw new Error(`${response.status}: ${sdp}`);
  await connection.setRemoteDescription({ type: 'answer', sdp });
}

const speaking = new RTCPeerConnection();
speaking.addTransceiver(openTone(Number(hz)), { direction: 'sendonly' });
await connect(speaking, whipAddress);

const hearing = new RTCPeerConnection();
const { receiver } = hearing.addTransceiver('audio', { direction: 'recvonly' });
const sink = new nonstandard.RTCAudioSink(receiver.track);
sink.ondata = ({ samples, channelCount }: { samples: Int16Array; channelCount: number }) => {
  const mono = samples.filter((_, i) => i % channelCount === 0);
  process.stdout.write(Buffer.from(mono.buffer, mono.byteOffset, mono.byteLength));
};
await connect(hearing, whepAddress);
