import { expect, test } from 'vitest';
import { loadCodecs } from '../../../../src/audio/codecs.ts';
import { LateBeginning } from '../../../../src/audio/mixing/late-beginning.ts';
import type { OpusCodec } from '../../../../src/audio/opus-codec.ts';
import { encodeOpus, tone } from '../../../support/sound.ts';

const { opus } = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
/** A tone never pauses. */
const packets = await encodeOpus(tone(440, 0.5, 5000));

test('LateBeginning.open() after a packet that does not decode: begins, with the others as history', async () => {
  const corrupted = packets[1]!;
  const codec: OpusCodec = {
    ...opus,
    createDecoder: async () => {
      const decoder = await opus.createDecoder();
      return {
        ...decoder,
        close: () => decoder.close(),
        decode: (packet) => {
          if (packet === corrupted) throw new Error('corrupted stream');
          return decoder.decode(packet);
        },
      };
    },
  };
  const beginning = await LateBeginning.open(codec, packets.slice(0, 2));
  expect(beginning.take(packets[2]!)).toHaveLength(1);
  beginning.close();
});

test('LateBeginning.take() of packets that never end with a frame of 20 ms: is over soon after it would be with others', async () => {
  const [short] = await encodeOpus(tone(440, 0.5, 20), 10);
  const aligned = await takenUntilOver(packets.slice(1));
  const unaligned = await takenUntilOver([short!, ...packets.slice(1)]);
  expect(aligned).toBeGreaterThan(10);
  expect(unaligned).toBeGreaterThan(aligned);
  expect(unaligned).toBeLessThanOrEqual(aligned + 12);
});

async function takenUntilOver(stream: readonly Buffer[]): Promise<number> {
  const beginning = await LateBeginning.open(opus, packets.slice(0, 1));
  let taken = 0;
  while (!beginning.isOver && taken < stream.length) {
    beginning.take(stream[taken]!);
    taken += 1;
  }
  expect(beginning.isOver).toBe(true);
  beginning.close();
  return taken;
}
