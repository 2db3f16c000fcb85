import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../../src/audio/format.ts';
import {
  sayTrack,
  type Sender,
  SENDERS,
  SENDERS_IN_CONTAINERS,
  SENDERS_OF_FILES,
  SENDERS_OF_SAMPLES,
} from '../../support/senders.ts';
import { SimulatedRoom, soundOf } from '../../support/simulated-room.ts';
import { distanceMeter } from '../../support/spectral-distance.ts';
import { spokenTrack, type Track } from '../../support/speech.ts';

const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const HEARINGS: { format: AudioFormat; delivery?: Delivery }[] = [
  { format: PCM },
  { format: { codec: 'opus' } },
  { format: { codec: 'opus' }, delivery: 'forward' },
];

let codecs: Codecs;
let track: Track;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  track = await spokenTrack({ words: 6, pauseMs: 300 });
});

const senders = [
  ...Object.values(SENDERS),
  ...SENDERS_OF_SAMPLES,
  ...SENDERS_IN_CONTAINERS,
  ...SENDERS_OF_FILES,
];

test.each(senders.map((sender): [string, Sender] => [sender.name, sender]))(
  '%s: from speech in to speech out the spectrum is that of the sender’s own stream, within 0.1 dB',
  async (_, sender) => {
    const { arrivals, reference } = await sayTrack(codecs, 'a', sender, track);
    // A listener that joins before the first word is sent packets as they are from the pause after
    // it on.
    const words = track.words.slice(1);
    const distanceTo = distanceMeter(track.sound, reference, words, sender.highestHz ?? 8000);
    const own = distanceTo([{ fromSample: 0, sound: reference }]);
    expect(own).toBeLessThan(12);
    for (const { format, delivery } of HEARINGS) {
      const room = new SimulatedRoom(codecs, ['a']);
      const listener = room.listen('x', format, delivery);
      await room.play(arrivals);
      room.mixer.close();
      const distance = distanceTo(await soundOf(codecs, listener));
      expect(Math.abs(distance! - own!)).toBeLessThan(0.1);
    }
  },
);

test('a sound that is another, or too loud, is far away', () => {
  const louder = track.sound.map((sample) => sample * 2);
  const distanceTo = distanceMeter(track.sound, track.sound, track.words, 8000);
  const far = (sound: Float32Array) => distanceTo([{ fromSample: 0, sound }]);
  expect(far(track.sound)).toBe(0);
  expect(far(louder)).toBeGreaterThan(4);
  expect(far(track.sound.toReversed())).toBeUndefined();
});
