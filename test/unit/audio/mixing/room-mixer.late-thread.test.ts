import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import type { AudioFormat } from '../../../../src/audio/format.ts';
import { SimulatedRoom, streamOf } from '../../../support/simulated-room.ts';
import { decodeOpus, opusTone } from '../../../support/sound.ts';

/** Three talk, and one of them stops while the mixing thread is late: it hears the other two as before. */

const OPUS: AudioFormat = { codec: 'opus' };
const TONES: [string, number, number][] = [
  ['a', 1000, 0.1],
  ['b', 440, 0.04],
  ['c', 600, 0.04],
];
/** Sum of the tones that the one that stops hears. */
const SUM = 0.14;
const [STOPS_AT_MS, ENDS_AT_MS] = [1500, 2800];
const SETTLED_SAMPLES = 14_400;

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

const cases = [0, 15, 21, 30, 45, 65].flatMap((lateMs) =>
  (['stops sending', 'is muted'] as const).map((how): [number, typeof how] => [lateMs, how]),
);

test.each(cases)(
  'a thread that is %i ms late, and one that %s: no gap, no burst, and no further encoder',
  async (lateMs, how) => {
    let encoders = 0;
    const createEncoder: typeof codecs.opus.createEncoder = (rateHz) => {
      encoders += 1;
      return codecs.opus.createEncoder(rateHz);
    };
    const counting = { ...codecs, opus: { ...codecs.opus, createEncoder } };
    const room = new SimulatedRoom(
      counting,
      TONES.map(([name]) => name),
      lateMs,
    );
    const [, heard] = TONES.map(([name]) => room.listen(name, OPUS));
    const streams = await Promise.all(
      TONES.map(async ([name, hz, amplitude], i) =>
        streamOf(name, await opusTone(hz, amplitude, ENDS_AT_MS), { fromMs: i * 103 }),
      ),
    );
    const [before, after] = [
      streams.map((stream) => stream.filter(({ atMs }) => atMs < STOPS_AT_MS)),
      streams.map((stream) =>
        stream.filter(({ atMs, peer }) => atMs >= STOPS_AT_MS && atMs < ENDS_AT_MS && peer !== 'b'),
      ),
    ];
    await room.play(...before);
    const encodersBefore = encoders;
    if (how === 'is muted') room.mixer.setMuted('b', true, room.nowMs);
    await room.play(...after);
    room.mixer.close();
    expect(room.faults).toEqual([]);
    const { frames, framesAtMs } = heard!;
    const from = framesAtMs.findIndex((atMs) => atMs >= STOPS_AT_MS - 200);
    const gapsMs = framesAtMs.slice(from + 1).map((atMs, i) => atMs - framesAtMs[from + i]!);
    expect(Math.max(...gapsMs)).toBeLessThanOrEqual(20);
    const sound = (await decodeOpus(frames)).subarray(SETTLED_SAMPLES);
    expect(Math.max(...sound.map(Math.abs))).toBeLessThan(1.2 * SUM);
    expect(encoders).toBe(encodersBefore);
  },
);
