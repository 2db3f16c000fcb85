import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { SimulatedRoom, soundOf, streamOf } from '../../../support/simulated-room.ts';
import { amplitudeOf, encodeOpus, opusTone, toDb, tone } from '../../../support/sound.ts';

/** Packets of a hostile speaker that hold sound far beyond full scale, and how loud others are heard behind them. */

const PCM = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 } as const;
const FRAME_SAMPLES = 960;
const VOICE_HZ = 1000;
/** Number of the packet that is loud. */
const LOUD = 50;
/** Amplitude of that packet; 1 is full scale. */
const LOUDEST = 300;

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Returns soft sound with a loud frame. */
function withLoudFrame(): Float32Array {
  const sound = tone(440, 0.01, 3000);
  const loud = tone(440, LOUDEST, 20);
  sound.set(loud, LOUD * FRAME_SAMPLES);
  return sound;
}

test.each([
  ['has others behind it', () => false],
  ['is followed by a lost one', (number: number) => number === LOUD + 1],
  ['is the last one', (number: number) => number > LOUD],
])('a packet 300 times full scale that %s does not turn others down', async (_, isLost) => {
  const room = new SimulatedRoom(codecs, ['voice', 'hostile', 'listener']);
  const listener = room.listen('listener', PCM);
  const hostile = streamOf('hostile', await encodeOpus(withLoudFrame()));
  await room.play(
    streamOf('voice', await opusTone(VOICE_HZ, 0.25, 3000)),
    hostile.filter(({ packet }) => !isLost(packet.sequenceNumber)),
  );
  const [{ sound } = { sound: new Float32Array(0) }] = await soundOf(codecs, listener);
  // The voice is measured without the sound of the hostile speaker, of another frequency.
  const dbAt = (ms: number) =>
    toDb(amplitudeOf(sound.subarray(ms * 48, (ms + 20) * 48), VOICE_HZ) / 0.25);
  const loudAtMs = LOUD * 20;
  const after = Array.from({ length: 50 }, (__, i) => dbAt(loudAtMs + 120 + i * 20));
  expect(Math.abs(dbAt(loudAtMs - 200))).toBeLessThan(1);
  expect(Math.min(...after)).toBeGreaterThan(-3);
  expect(room.faults).toEqual([]);
});
