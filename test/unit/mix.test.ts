import { expect, test } from 'vitest';
import { loadCodecs } from '../../src/audio/codecs.ts';
import { FRAME_SAMPLES } from '../../src/audio/format.ts';
import { Mix } from '../../src/audio/mixing/mix.ts';

test('a format that is heard no more before its first frame is let go of', async () => {
  const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const usedAfterClose: string[] = [];
  const openResampler: typeof codecs.openResampler = (fromHz, toHz) => {
    const resampler = codecs.openResampler(fromHz, toHz);
    let isClosed = false;
    return {
      process: (samples) => {
        // What was freed is somebody else's memory by now.
        if (isClosed) usedAfterClose.push(`${fromHz} to ${toHz} Hz`);
        return isClosed ? samples : resampler.process(samples);
      },
      close: () => {
        isClosed = true;
        resampler.close();
      },
    };
  };
  const mix = new Mix({ ...codecs, openResampler }, (fault) => {
    throw fault;
  });
  const planned = { name: 'all', without: [], gains: [], gainsBefore: [] };
  const frame = new Float32Array(FRAME_SAMPLES).fill(0.1);
  const formats: string[] = [];
  const deliver = () =>
    mix.deliver(frame, [1], () => frame, {
      mixed: (_name, format) => formats.push(format),
      passed: () => {},
      concealed: () => {},
    });
  const [wide, narrow] = ['pcm_s16le;rate=48000;channels=1', 'pcm_s16le;rate=16000;channels=1'];
  mix.plan({ ...planned, formats: [wide] });
  mix.start(frame, () => frame);
  deliver();
  mix.plan({ ...planned, formats: [wide, narrow] });
  mix.plan({ ...planned, formats: [wide] });
  deliver();
  expect(formats).toEqual([wide, wide]);
  expect(usedAfterClose).toEqual([]);
  mix.close();
});
