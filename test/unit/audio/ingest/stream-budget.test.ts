import { expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { createIngest } from '../../../../src/audio/ingest/create-ingest.ts';
import { SoundBudget } from '../../../../src/audio/ingest/sound-budget.ts';
import { StreamBudget, type StreamOverdraft } from '../../../../src/audio/ingest/stream-budget.ts';
import { oggOpus } from '../../../support/containers.ts';
import { readFixture } from '../../../support/fixtures.ts';
import { opusTone } from '../../../support/sound.ts';

const RATE = { perSecond: 10, burst: 20 };

function openBudget() {
  const overdrafts: StreamOverdraft[] = [];
  const budget = new StreamBudget(RATE, 'Too often.', (overdraft) => overdrafts.push(overdraft));
  return { budget, overdrafts };
}

test('StreamBudget.spend() over the budget slows the client down, tells it once, and refuses it after 5 s', () => {
  const { budget, overdrafts } = openBudget();
  for (let i = 0; i < 20; i += 1) budget.spend(0);
  expect(overdrafts).toEqual([]);
  // As often as is read again after each wait.
  let nowMs = 0;
  const go = () => {
    budget.spend(nowMs);
    nowMs += overdrafts.at(-1)!.waitMs - 1;
  };
  expect(() => {
    for (;;) go();
  }).toThrow('Too often.');
  expect(nowMs).toBeGreaterThanOrEqual(5000);
  expect(nowMs).toBeLessThan(5500);
  expect(overdrafts.map(({ fault }) => fault !== undefined)).toEqual([
    true,
    ...Array<boolean>(overdrafts.length - 1).fill(false),
  ]);
  expect(overdrafts[0]!.fault).toMatchObject({ code: 'rate_limited', retryAfterMs: 100 });
});

test('StreamBudget.spend() tells a client again that has been within its budget meanwhile', () => {
  const { budget, overdrafts } = openBudget();
  for (let i = 0; i < 21; i += 1) budget.spend(0);
  for (let i = 0; i < 21; i += 1) budget.spend(10_000);
  expect(overdrafts.map(({ fault }) => fault !== undefined)).toEqual([true, true]);
});

test('StreamBudget.spend() of twice what it has at once is refused at once', () => {
  const { budget } = openBudget();
  for (let i = 0; i < 40; i += 1) budget.spend(0);
  expect(() => {
    for (let i = 0; i < 2; i += 1) budget.spend(0);
  }).toThrow('Too often.');
});

test('StreamBudget.spend() that slows nobody down refuses the first excess', () => {
  const budget = new StreamBudget(RATE, 'Too often.');
  for (let i = 0; i < 20; i += 1) budget.spend(0);
  expect(() => budget.spend(0)).toThrow('Too often.');
});

test.each([
  ['ogg_opus', 20, async () => Buffer.concat(oggOpus(await opusTone(440, 0.5, 20), 20))],
  ['ogg_vorbis', 1000, async () => readFixture('speech.ogg')],
] as const)(
  'whole files of %s that begin every %i ms for half a minute: no overdraft and no fault',
  async (codec, everyMs, makeFile) => {
    const codecs: Codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
    const told: unknown[] = [];
    const note = (fault: unknown) => told.push(fault);
    const ingest = await createIngest(
      { codec },
      codecs,
      { sink: () => {}, sound: new SoundBudget(undefined, note) },
      { onFault: note, onInside: () => {} },
    );
    const file = await makeFile();
    // Vorbis is cut behind its head: more sound than in real time would be refused.
    const begun = codec === 'ogg_vorbis' ? file.subarray(0, 6000) : file;
    for (let atMs = 0; atMs < 30_000; atMs += everyMs) ingest.push(begun, atMs);
    expect(told).toEqual([]);
    ingest.close();
  },
);
