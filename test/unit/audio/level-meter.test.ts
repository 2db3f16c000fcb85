import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import { ActiveSpeakers } from '../../../src/audio/mixing/active-speakers.ts';
import { LevelMeter } from '../../../src/audio/level-meter.ts';
import type { OpusDecoder } from '../../../src/audio/opus-codec.ts';
import { levelsOf, playLevels } from '../../support/places.ts';
import { SENDERS, sayTrack } from '../../support/senders.ts';
import { encodeOpus, tone } from '../../support/sound.ts';
import { spokenTrack } from '../../support/speech.ts';

let codecs: Codecs;
let soft: Buffer[];
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  soft = await encodeOpus(tone(440, 0.01, 4000));
});

/** Level of a tone with an amplitude of 0.01. */
const SOFT_LEVEL = 43;
/** Time for which a speaker counts as talking after its last loud packet, and that by which a decoder and three packets may lengthen it, ms. */
const SILENT_WITHIN_MS = 500 + 66;

/** A meter, and how many packets it has decoded. */
async function openMeter() {
  const decoder = await codecs.opus.createDecoder();
  let decoded = 0;
  const counting: OpusDecoder = {
    ...decoder,
    decode: (packet) => {
      decoded += 1;
      return decoder.decode(packet);
    },
  };
  return { meter: new LevelMeter(counting), decoded: () => decoded };
}

describe('LevelMeter', () => {
  test('no level is stated: every packet is measured, within 3 dB', async () => {
    const { meter } = await openMeter();
    const levels = soft.map((packet) => meter.levelOf(packet, undefined)).slice(10);
    expect(Math.max(...levels.map((level) => Math.abs(level - SOFT_LEVEL)))).toBeLessThanOrEqual(3);
    meter.close();
  });

  test.each([SENDERS.browser, SENDERS.celt, SENDERS.dtx])(
    'speech as $name, no level is stated: `speaking` tells that of what was said, within 3 dB, and the end of each word within the hold time',
    async (sender) => {
      const track = await spokenTrack({ words: 5, pauseMs: 900 });
      const { arrivals } = await sayTrack(codecs, 'a', sender, track);
      const { meter } = await openMeter();
      const measured = arrivals.map(({ packet }) => meter.levelOf(packet.payload, undefined));
      meter.close();
      const words = track.words.map(({ fromSample, samples }) => ({
        fromMs: fromSample / 48,
        endMs: (fromSample + samples) / 48,
        loudest: { said: Infinity, measured: Infinity },
        silentAtMs: Infinity,
      }));
      const streams = [
        { name: 'said', levels: levelsOf(track.sound), fromMs: 0 },
        { name: 'measured', levels: measured, fromMs: 0 },
      ] as const;
      playLevels([...streams], (speakers, ms) => {
        const word = words.findLast(({ fromMs }) => fromMs <= ms);
        if (!word) return;
        const levels = new Map(speakers.levels());
        for (const { name } of streams) {
          word.loudest[name] = Math.min(word.loudest[name], levels.get(name) ?? Infinity);
        }
        const isSilent = ms > word.endMs && !levels.has('measured');
        if (isSilent) word.silentAtMs = Math.min(word.silentAtMs, ms);
      });
      for (const { endMs, loudest, silentAtMs } of words) {
        expect(Math.abs(loudest.measured - loudest.said)).toBeLessThanOrEqual(3);
        expect(silentAtMs - endMs).toBeLessThanOrEqual(SILENT_WITHIN_MS);
      }
    },
  );

  test('silence is silence, and what does not decode too', async () => {
    const { meter } = await openMeter();
    expect(meter.levelOf(Buffer.of(0xf8, 0xff, 0xfe), undefined)).toBe(127);
    expect(meter.levelOf(Buffer.of(0x7b, 0, 0, 0, 0), undefined)).toBe(127);
    meter.close();
  });

  test('a level that is true is believed, and one packet in five decoded', async () => {
    const { meter, decoded } = await openMeter();
    for (const packet of soft) expect(meter.levelOf(packet, SOFT_LEVEL)).toBe(SOFT_LEVEL);
    expect(decoded()).toBeLessThanOrEqual(soft.length / 5 + 1);
    meter.close();
  });

  test('a stated level of silence is believed: nothing is decoded', async () => {
    const { meter, decoded } = await openMeter();
    for (const packet of soft) expect(meter.levelOf(packet, 70)).toBe(70);
    expect(decoded()).toBe(0);
    meter.close();
  });

  test('eight that claim to be the loudest do not keep out who speaks', async () => {
    const meters = await Promise.all(Array.from({ length: 8 }, () => openMeter()));
    const isHeard: boolean[] = [];
    const talkers = new ActiveSpeakers<string>({ thresholdLevel: 65, holdMs: 500, maxMixed: 8 });
    for (const [i, packet] of soft.entries()) {
      for (const [liar, { meter }] of meters.entries()) {
        talkers.heard(`liar ${liar}`, meter.levelOf(packet, 0), 960, i * 20);
      }
      if (i >= 100) talkers.heard('speaker', 26, 960, i * 20);
      isHeard.push(talkers.mixed.has('speaker'));
    }
    // It begins to speak with packet 100.
    expect(isHeard.indexOf(true)).toBeLessThanOrEqual(110);
    expect(isHeard.at(-1)).toBe(true);
    expect(talkers.levels().find(([id]) => id === 'liar 0')).toEqual(['liar 0', SOFT_LEVEL]);
    for (const { meter } of meters) meter.close();
  });
});
