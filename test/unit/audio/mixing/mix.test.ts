import { expect, test } from 'vitest';
import { loadCodecs } from '../../../../src/audio/codecs.ts';
import { FRAME_SAMPLES } from '../../../../src/audio/format.ts';
import { Mix } from '../../../../src/audio/mixing/mix.ts';
import { readSamples } from '../../../../src/audio/samples.ts';
import { tone } from '../../../support/sound.ts';

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
  const onFault = (fault: unknown) => {
    throw fault;
  };
  const mix = new Mix({ ...codecs, openResampler }, onFault, { open: 0 });
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
  const mix = new Mix({ ...codecs, opus }, (fault) => faults.push(fault), { open: 0 });
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

test('an encoder that opens only after a frame: its first packet continues from what was heard', async () => {
  const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const calls: string[] = [];
  let open = () => {};
  const createEncoder: typeof codecs.opus.createEncoder = async () => {
    await new Promise<void>((resolve) => (open = resolve));
    return {
      prime: ([first]) => calls.push(`prime ${first}`),
      encode: ([first]) => {
        calls.push(`encode ${first}`);
        return Buffer.of(0);
      },
      beginAnew: () => {},
      close: () => {},
    };
  };
  const onFault = (fault: unknown) => {
    throw fault;
  };
  const mix = new Mix({ ...codecs, opus: { ...codecs.opus, createEncoder } }, onFault, { open: 0 });
  const planned = { name: 'all', without: [], gains: [], gainsBefore: [], formats: ['opus'] };
  const frameOf = (value: number) => new Float32Array(FRAME_SAMPLES).fill(value);
  const deliver = (value: number) =>
    mix.deliver(frameOf(value), [1], () => frameOf(value), {
      mixed: () => {},
      passed: () => {},
      concealed: () => {},
      paused: () => {},
    });
  mix.plan(planned);
  mix.start(frameOf(0.125), () => undefined);
  deliver(0.25);
  open();
  await new Promise(setImmediate);
  deliver(0.375);
  deliver(0.5);
  expect(calls).toEqual(['prime 0.25', 'encode 0.375', 'encode 0.5']);
  mix.close();
});

test('of 200 rates: 12 resamplers at most, and each is heard at its rate, in every format of it alike', async () => {
  const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  let open = 0;
  let mostOpen = 0;
  const openResampler: typeof codecs.openResampler = (fromHz, toHz) => {
    const resampler = codecs.openResampler(fromHz, toHz);
    open += 1;
    mostOpen = Math.max(mostOpen, open);
    return {
      process: (samples) => resampler.process(samples),
      close: () => {
        open -= 1;
        resampler.close();
      },
    };
  };
  const onFault = (fault: unknown) => {
    throw fault;
  };
  const oddRates = { open: 0 };
  const mix = new Mix({ ...codecs, openResampler }, onFault, oddRates);
  const ratesHz = Array.from({ length: 200 }, (_, i) => 8000 + 201 * i);
  const formatOf = (rateHz: number, codec = 'pcm_f32le') => `${codec};rate=${rateHz};channels=1`;
  const bytes = new Map<string, Buffer[]>();
  const seconds = 2;
  const planned = { name: 'all', without: [], gains: [], gainsBefore: [] };
  const frames = Array.from({ length: seconds * 50 }, (_, i) =>
    tone(440, 0.25, 20 * (i + 1)).subarray(i * FRAME_SAMPLES),
  );
  const silence = new Float32Array(FRAME_SAMPLES);
  mix.plan({ ...planned, formats: ratesHz.map((rateHz) => formatOf(rateHz)) });
  mix.start(silence, () => silence);
  for (const [i, frame] of frames.entries()) {
    if (i === 50) {
      // Others come in the middle, whose resamplers are shared.
      const late = ratesHz.flatMap((rateHz) => [formatOf(rateHz), formatOf(rateHz, 'pcm_s32le')]);
      mix.plan({ ...planned, formats: late });
    }
    mix.deliver(frame, [1], () => frame, {
      mixed: (_name, format, heard) => bytes.set(format, [...(bytes.get(format) ?? []), heard]),
      passed: () => {},
      concealed: () => {},
      paused: () => {},
    });
  }
  expect(mostOpen).toBeLessThanOrEqual(8 + 4);
  for (const rateHz of ratesHz) {
    const heard = readSamples(Buffer.concat(bytes.get(formatOf(rateHz))!), 'pcm_f32le');
    expect(Math.abs(heard.length - seconds * rateHz)).toBeLessThan(0.005 * rateHz);
    const lateFrames = bytes.get(formatOf(rateHz, 'pcm_s32le'))!;
    const late = readSamples(Buffer.concat(lateFrames), 'pcm_s32le');
    const same = heard.subarray(-late.length);
    expect(Math.max(...late.map((sample, i) => Math.abs(sample - same[i]!)))).toBeLessThan(1e-6);
  }
  mix.close();
  expect([open, oddRates.open]).toEqual([0, 0]);
});

test('a planned change of gain: gradual in the next frame, and complete after it', async () => {
  const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const onFault = (fault: unknown) => {
    throw fault;
  };
  const mix = new Mix(codecs, onFault, { open: 0 });
  const frame = new Float32Array(FRAME_SAMPLES).fill(0.4);
  const heard: Float32Array[] = [];
  const deliver = () =>
    mix.deliver(frame, [1], () => frame, {
      mixed: (_name, _format, bytes) => heard.push(readSamples(bytes, 'pcm_f32le')),
      passed: () => {},
      concealed: () => {},
      paused: () => {},
    });
  mix.plan({
    name: 'softer',
    without: [],
    gains: [[1, 0.5]],
    gainsBefore: [[1, 1]],
    formats: ['pcm_f32le;rate=48000;channels=1'],
  });
  mix.start(frame, () => frame);
  deliver();
  deliver();
  const [first, second] = heard;
  expect(first![0]).toBeCloseTo(0.4);
  expect(first![FRAME_SAMPLES / 4]).toBeGreaterThan(0.3);
  expect(first!.at(-1)).toBeCloseTo(0.2);
  expect([second![0], second!.at(-1)]).toEqual([expect.closeTo(0.2), expect.closeTo(0.2)]);
  mix.close();
});
