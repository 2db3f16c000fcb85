import { expect, test } from 'vitest';
import { loadCodecs } from '../../../../src/audio/codecs.ts';
import { FRAME_SAMPLES } from '../../../../src/audio/format.ts';
import { Mix } from '../../../../src/audio/mixing/mix.ts';

test('a format that is heard no more before its first frame is let go of', async () => {
  const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const usedAfterClose: string[] = [];
  const openResampler: typeof codecs.openResampler = (fromHz, toHz) => {
    const resampler = codecs.openResampler(fromHz, toHz);
    let isClosed = false;
    return {
      process: (samples) => {
        // Freed memory may be in other use by now.
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
      paused: () => {},
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

test('an encoder that does not open: told, and another is opened by the next plan', async () => {
  const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  let isOut = true;
  const createEncoder: typeof codecs.opus.createEncoder = async (rateHz) => {
    if (isOut) throw new Error('out of memory');
    return codecs.opus.createEncoder(rateHz);
  };
  const faults: unknown[] = [];
  const opus = { ...codecs.opus, createEncoder };
  const mix = new Mix({ ...codecs, opus }, (fault) => faults.push(fault));
  const planned = { name: 'all', without: [], gains: [], gainsBefore: [], formats: ['opus'] };
  const frame = new Float32Array(FRAME_SAMPLES).fill(0.1);
  const heard: Buffer[] = [];
  const deliver = async () => {
    await new Promise(setImmediate);
    mix.deliver(frame, [1], () => frame, {
      mixed: (_name, _format, packet) => heard.push(packet),
      passed: () => {},
      concealed: () => {},
      paused: () => {},
    });
  };
  mix.plan(planned);
  mix.start(frame, () => frame);
  await deliver();
  expect([faults.length, heard.length]).toEqual([1, 0]);
  isOut = false;
  mix.plan(planned);
  await deliver();
  expect([faults.length, heard.length]).toEqual([1, 1]);
  mix.close();
});
