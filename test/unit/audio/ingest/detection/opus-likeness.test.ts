import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../../src/audio/codecs.ts';
import { formatAudioFormat } from '../../../../../src/audio/format.ts';
import { OpusLikeness } from '../../../../../src/audio/ingest/detection/opus-likeness.ts';
import { AudioInput } from '../../../../../src/audio/ingest/input.ts';
import { opusPacketSamples } from '../../../../../src/audio/opus-packet.ts';
import { arrivalsOf, CONTENTS } from '../../../../support/corpus.ts';
import { seededRandom } from '../../../../support/random.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Packets as they are encrypted by programs that leave the first byte readable: the rest is random. */
function sealedPackets(configuration: number, count: number, seed: number): Buffer[] {
  const random = seededRandom(seed * 100 + configuration);
  return Array.from({ length: count }, () => {
    const length = 40 + Math.floor(random() * 80);
    const packet = Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)));
    packet[0] = configuration << 3;
    return packet;
  });
}

describe.each(CONTENTS)('%s in Opus', (content) => {
  test.each([10, 20, 60])(
    'in packets of %i ms: never random, nor doubtful at first',
    async (messageMs) => {
      for (let seed = 1; seed <= 8; seed += 1) {
        const opus = { content, format: { codec: 'opus' }, messageMs, seed } as const;
        const likeness = new OpusLikeness();
        const verdicts = (await arrivalsOf(opus, 1500)).map(({ message }) => {
          likeness.push(message);
          return { isRandom: likeness.isRandom(true), isDoubtful: likeness.isDoubtful };
        });
        expect(verdicts.some(({ isRandom }) => isRandom)).toBe(false);
        expect({ seed, isDoubtful: verdicts[2]!.isDoubtful }).toEqual({ seed, isDoubtful: false });
      }
    },
  );
});

const CONFIGURATIONS = Array.from({ length: 32 }, (_, i) => i);

test('encrypted packets behind a first byte of Opus, at its pace: hardly heard, and unknown in the end', async () => {
  const heardMs: number[] = [];
  let unknown = 0;
  for (const configuration of CONFIGURATIONS) {
    for (let seed = 1; seed <= 4; seed += 1) {
      const packets = sealedPackets(configuration, 100, seed);
      const packetMs = opusPacketSamples(packets[0]!)! / 48;
      const detected: string[] = [];
      let soundingMs = 0;
      const input = new AudioInput(
        'auto',
        codecs,
        { sink: (_packet, samples) => (soundingMs += samples / 48) },
        {
          onDetected: (format) => detected.push(formatAudioFormat(format)),
          onOpaque: () => {},
          onMismatch: () => {},
          onFault: () => {},
        },
      );
      for (const [i, packet] of packets.entries()) {
        input.push(packet, i * packetMs);
        await new Promise(setImmediate);
      }
      if (detected.at(-1) === 'opaque') unknown += 1;
      heardMs.push(soundingMs);
      input.close();
    }
  }
  heardMs.sort((a, b) => a - b);
  expect(unknown).toBeGreaterThan(0.9 * heardMs.length);
  expect(heardMs[heardMs.length >> 1]).toBe(0);
  expect(heardMs[Math.floor(0.9 * heardMs.length)]).toBeLessThan(1500);
});
