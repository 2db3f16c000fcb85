import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat } from '../../../src/audio/format.ts';
import { hearOverFans } from '../../support/fans.ts';
import { SENDERS, type Sender, sayTrack } from '../../support/senders.ts';
import { musicTrack, spokenTrack } from '../../support/speech.ts';
import { encodeOnceMore, hearTurns } from '../../support/turns.ts';

const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const OPUS: AudioFormat = { codec: 'opus' };

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
});

const shareOver = (errors: number[], db: number) =>
  errors.filter((error) => Math.abs(error) > db).length / errors.length;

const { pcm, browser, celt } = SENDERS;

describe.each([pcm, browser, celt].map((sender): [string, Sender] => [sender.name, sender]))(
  'a speaker that goes on (%s) while another begins and ends',
  (_, sender) => {
    let said: Awaited<ReturnType<typeof sayTrack>>;
    beforeAll(async () => {
      said = await sayTrack(codecs, 'a', sender, await spokenTrack({ words: 16, pauseMs: 60 }));
    });

    test('heard as samples: within 1 dB of what was sent', async () => {
      const errors = await hearTurns(codecs, said, { format: PCM }, 6);
      expect(errors.length).toBeGreaterThan(60);
      expect(shareOver(errors, 1)).toBe(0);
    });

    test('heard as Opus: within 3 dB of it, and within 1 dB as often as what is encoded once more', async () => {
      const errors = await hearTurns(codecs, said, { format: OPUS }, 12);
      const again = await encodeOnceMore(codecs, said);
      expect(errors.length).toBeGreaterThan(60);
      expect(shareOver(errors, 1)).toBeLessThan(shareOver(again, 1) + 0.01);
      expect(shareOver(errors, 3)).toBe(0);
    });

    test('heard apart: the same', async () => {
      const errors = await hearTurns(codecs, said, { format: OPUS, delivery: 'forward' }, 6);
      const again = await encodeOnceMore(codecs, said);
      expect(errors.length).toBeGreaterThan(60);
      expect(shareOver(errors, 1)).toBeLessThan(shareOver(again, 1) + 0.01);
      expect(shareOver(errors, 3)).toBe(0);
    });
  },
);

test('music that goes on while another speaks, heard as Opus: within 3 dB, and within 1 dB as often as what is encoded once more', async () => {
  const said = await sayTrack(codecs, 'a', pcm, await musicTrack());
  const errors = await hearTurns(codecs, said, { format: OPUS }, 6);
  const again = await encodeOnceMore(codecs, said);
  expect(errors.length).toBeGreaterThan(60);
  expect(shareOver(errors, 1)).toBeLessThan(shareOver(again, 1) + 0.01);
  expect(shareOver(errors, 3)).toBe(0);
});

test.each([40, 60])(
  'a speaker that goes on, in packets of %i ms, heard as Opus beside a listener to samples: within 3 dB, and within 1 dB as often as what is encoded once more',
  async (packetMs) => {
    const track = await spokenTrack({ words: 16, pauseMs: 60 });
    const said = await sayTrack(codecs, 'a', { ...browser, packetMs }, track);
    const errors = await hearTurns(codecs, said, { format: OPUS, besidePcm: true }, 6);
    const again = await encodeOnceMore(codecs, said);
    expect(errors.length).toBeGreaterThan(60);
    expect(shareOver(errors, 1)).toBeLessThan(shareOver(again, 1) + 0.01);
    expect(shareOver(errors, 3)).toBe(0);
  },
);

test.each([
  [-50, -26],
  [-45, -26],
  [-40, -26],
  [-35, -26],
  [-40, -34],
  [-35, -29],
])(
  'a ninth above eight steady noises at %i dBov, who speaks at %i dBov: every word is heard, within 200 ms',
  async (noiseDb, levelDb) => {
    const errors = await hearOverFans(codecs, noiseDb, { words: 4, levelDb });
    expect(errors.map(({ isMissing }) => isMissing)).toEqual([false, false, false, false]);
    expect(Math.max(...errors.map(({ softMs }) => softMs))).toBeLessThan(40);
  },
);
