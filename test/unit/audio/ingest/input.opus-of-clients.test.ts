import { Application, type EncoderOptions } from 'libopus-wasm';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { formatAudioFormat } from '../../../../src/audio/format.ts';
import { AudioInput } from '../../../../src/audio/ingest/input.ts';
import { SoundBudget } from '../../../../src/audio/ingest/sound-budget.ts';
import { CONTENTS, soundOf } from '../../../support/corpus.ts';
import { seededRandom } from '../../../support/random.ts';
import { encodeOpus, tone } from '../../../support/sound.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Returns the formats that are told of an undeclared stream of these packets, and how many of them nobody hears. */
async function takenFor(packets: readonly Buffer[], packetMs: number) {
  const detected: string[] = [];
  let unheard = packets.length;
  const input = new AudioInput(
    'auto',
    codecs,
    { sink: () => (unheard -= 1), sound: new SoundBudget() },
    {
      onDetected: (format) => detected.push(formatAudioFormat(format)),
      onOpaque: () => {},
      onMismatch: () => {},
      onFault: (fault) => detected.push(String(fault)),
    },
  );
  for (const [i, packet] of packets.entries()) {
    input.push(packet, i * packetMs);
    // Gives time to what opens asynchronously.
    await new Promise(setImmediate);
  }
  input.close();
  return { detected, unheard };
}

/** As browsers encode: from complexity 5 on the filter of a pitch is used, and changes with each chord. */
const COMPLEXITY = 9;

const ENCODERS: [string, EncoderOptions][] = [
  ['at 64 kbit/s', { application: Application.Audio, bitrate: 64_000 }],
  ['at low delay', { application: Application.RestrictedLowDelay, bitrate: 64_000 }],
  [
    'as voice with copies of the packet before',
    { application: Application.Voip, bitrate: 24_000, fec: true, packetLossPercent: 10 },
  ],
];

/** Four seconds, in which streams are looked at again. */
function longSound(content: (typeof CONTENTS)[number], seed: number): Float32Array {
  const random = seededRandom(seed);
  const seconds = Array.from({ length: 4 }, () => [...soundOf(content, 48_000, 1000, random)]);
  return Float32Array.from(seconds.flat());
}

describe.each(CONTENTS)('undeclared Opus of %s', (content) => {
  const sounds = [1, 2, 3].map((seed) => longSound(content, seed));

  test.each(ENCODERS)('%s: Opus from the first packet to the last', async (_, options) => {
    for (const packetMs of [10, 20]) {
      for (const sound of sounds) {
        const packets = await encodeOpus(sound, packetMs, { ...options, complexity: COMPLEXITY });
        const taken = await takenFor(packets, packetMs);
        expect({ packetMs, ...taken }).toEqual({ packetMs, detected: ['opus'], unheard: 0 });
      }
    }
  });
});

const TONE_ENCODERS: [string, EncoderOptions][] = [
  ['as music', { application: Application.Audio, bitrate: 48_000 }],
  ['at low delay', { application: Application.RestrictedLowDelay, bitrate: 24_000 }],
  ['as voice', { application: Application.Voip, bitrate: 24_000 }],
  ['at a constant rate', { application: Application.Audio, bitrate: 48_000, vbr: false }],
];

describe.each(TONE_ENCODERS)('undeclared Opus of a soft pure tone %s', (_, options) => {
  test.each([
    [-74, 200],
    [-74, 1000],
    [-46, 200],
    [-46, 1000],
  ])(
    '%i dBov, %i Hz, whose encoder begins anew: Opus from the first packet to the last',
    async (levelDbov, hz) => {
      const sound = tone(hz, Math.SQRT2 * 10 ** (levelDbov / 20), 1500);
      for (const complexity of [0, COMPLEXITY]) {
        const packets = await encodeOpus(sound, 20, { ...options, complexity });
        const taken = await takenFor([...packets, ...packets], 20);
        expect({ complexity, ...taken }).toEqual({ complexity, detected: ['opus'], unheard: 0 });
      }
    },
  );
});
