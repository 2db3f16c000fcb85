import { expect, test } from 'vitest';
import { parseSettings, serializeSettings } from '../../../src/session/audio-settings.ts';
import { LatestWrite } from '../../../src/admission/latest-write.ts';

const ULAW = { codec: 'pcmu', rateHz: 8000, channels: 1 } as const;
const SETTINGS = {
  in: 'auto',
  detected: { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 },
  out: ULAW,
  delivery: 'forward',
  volume: { bob: 0.5, __proto__x: 0, "it's “quoted”": 4 },
  isMuted: true,
} as const;

test('settings are read as they were written', () => {
  expect(parseSettings(serializeSettings(SETTINGS))).toEqual(SETTINGS);
  const declared = { ...SETTINGS, in: ULAW, detected: undefined, out: undefined };
  expect(parseSettings(serializeSettings(declared))).toEqual(declared);
});

test('the samples in a WAVE file are kept, unless nobody could be sent them', () => {
  const inside = SETTINGS.detected;
  const sent = { ...SETTINGS, detected: { codec: 'wav', inside } } as const;
  expect(parseSettings(serializeSettings(sent))).toEqual(sent);
  const wide = { ...sent, detected: { codec: 'wav', inside: { ...inside, channels: 6 } } } as const;
  expect(parseSettings(serializeSettings(wide))).toEqual({ ...sent, detected: { codec: 'wav' } });
});

test.each(['', '{}', '[]', '{"in":"mp4","delivery":"mix","mute":true,"volume":{}}'])(
  '%j is refused',
  (text) => {
    expect(() => parseSettings(text)).toThrow(Error);
  },
);

test('settings that do not fit are left out: volumes only, the newest are kept', () => {
  const peers = Array.from({ length: 1000 }, (_, i) => [`${'ä'.repeat(100)} ${i}`, 0.5] as const);
  const text = serializeSettings({ ...SETTINGS, volume: Object.fromEntries(peers) });
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(16 * 1024);
  expect(Buffer.byteLength(text)).toBeGreaterThan(15 * 1024);
  const { volume, ...rest } = parseSettings(text);
  expect({ ...rest, volume: {} }).toEqual({ ...SETTINGS, volume: {} });
  expect(Object.entries(volume)).toEqual(peers.slice(-Object.keys(volume).length));
});

test('of values that come during a write only the last is written', async () => {
  const written: string[] = [];
  const gate = Promise.withResolvers<void>();
  const faults: unknown[] = [];
  const latest = new LatestWrite(
    async (value) => {
      written.push(value);
      await gate.promise;
      if (value === 'c') throw new Error('no');
    },
    (fault) => faults.push(fault),
  );
  const writes = ['a', 'b', 'c'].map((value) => latest.write(value));
  expect(written).toEqual(['a']);
  gate.resolve();
  await Promise.all(writes);
  expect(faults).toHaveLength(1);
  expect(written).toEqual(['a', 'c']);
  await latest.write('d');
  await latest.write('d');
  expect(written).toEqual(['a', 'c', 'd']);
});

test('a value that was written before one that could not be written is written again', async () => {
  const written: string[] = [];
  const write = async (value: string) => {
    if (value === 'b') throw new Error('no');
    written.push(value);
  };
  const latest = new LatestWrite(write, () => {});
  for (const value of ['a', 'b', 'a']) await latest.write(value);
  expect(written).toEqual(['a', 'a']);
});
