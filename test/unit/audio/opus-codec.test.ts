import { expect, test } from 'vitest';
import { loadCodecs } from '../../../src/audio/codecs.ts';
import { FRAME_SAMPLES } from '../../../src/audio/format.ts';
import { findGlitches } from '../../support/glitches.ts';
import { amplitudeOf, decodeOpus, fade, sweep, toDb, tone } from '../../support/sound.ts';

const FRAMES = 200;
const TONE_HZ = 525;

/** Encodes in one piece, changing the complexity at regular intervals. */
async function encodeWithChanges(sound: Float32Array, complexities: number[]): Promise<Buffer[]> {
  const { opus } = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const encoder = await opus.createEncoder(48_000);
  const every = Math.floor(FRAMES / complexities.length);
  const packets = Array.from({ length: FRAMES }, (_, i) => {
    if (i % every === 0) opus.setComplexity(complexities[i / every]!);
    return encoder.encode(sound.subarray(i * FRAME_SAMPLES, (i + 1) * FRAME_SAMPLES));
  });
  encoder.close();
  return packets;
}

const sounds: [string, Float32Array][] = [
  ['a tone', tone(TONE_HZ, 0.25, FRAMES * 20)],
  ['a sweep', fade(sweep([300, 3000], 0.25, FRAMES * 20))],
];

test.each(sounds)('%s: no click where the complexity changes', async (_name, sound) => {
  const changed = await encodeWithChanges(sound, [5, 3, 1, 0, 10, 0, 1, 3, 5, 10]);
  expect(findGlitches((await decodeOpus(changed)).subarray(4800, -4800))).toEqual([]);
});

test('the complexity of an open encoder does change, and the tone keeps its level', async () => {
  const [, sound] = sounds[0]!;
  const [constant, lowered] = [
    await encodeWithChanges(sound, [5, 5]),
    await encodeWithChanges(sound, [5, 0]),
  ];
  const half = FRAMES / 2;
  expect(lowered.slice(0, half)).toEqual(constant.slice(0, half));
  expect(lowered.slice(half)).not.toEqual(constant.slice(half));
  const heard = (await decodeOpus(lowered)).subarray(-48_000);
  expect(Math.abs(toDb(amplitudeOf(heard, TONE_HZ) / 0.25))).toBeLessThan(0.5);
});

test('an encoder that is opened later has it from the beginning', async () => {
  const encodeFirst = async (complexity: number, setComplexity?: number) => {
    const { opus } = await loadCodecs({ bitrateBps: 32_000, complexity });
    if (setComplexity !== undefined) opus.setComplexity(setComplexity);
    const encoder = await opus.createEncoder(48_000);
    const packets = Array.from({ length: 20 }, (_, i) =>
      encoder.encode(sounds[1]![1].subarray(i * FRAME_SAMPLES, (i + 1) * FRAME_SAMPLES)),
    );
    encoder.close();
    return packets;
  };
  expect(await encodeFirst(10, 0)).toEqual(await encodeFirst(0));
});
