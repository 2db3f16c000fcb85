import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { createIngest } from '../../../../src/audio/ingest/create-ingest.ts';
import { SoundBudget } from '../../../../src/audio/ingest/sound-budget.ts';
import { counters } from '../../../../src/counters.ts';
import { cutInto, readFixture } from '../../../support/fixtures.ts';
import { StallingDecoder } from '../../../support/stalling-decoder.ts';
import { openTimedClient } from '../../../support/timed-client.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 24_000, complexity: 0 });
});

const MESSAGE_MS = 100;
const FILE = readFixture('speech.aac');
const MESSAGES = cutInto(FILE, [Math.ceil((FILE.length * MESSAGE_MS) / 2600)]);

/** Sends AAC to a decoder that answers with every second message only: the delay of each packet, ms, and the frames that were dropped. */
async function hearLate(messages: number) {
  const decoder = new StallingDecoder({ samplesPerFrame: 1024, rateHz: 48_000 });
  decoder.isStalled = true;
  const delaysMs: number[] = [];
  const faults: unknown[] = [];
  let nowMs = 0;
  const ingest = await createIngest(
    { codec: 'aac_adts' },
    decoder.in(codecs),
    { sink: (...[, , , atMs]) => void delaysMs.push(nowMs - atMs), sound: new SoundBudget() },
    { onFault: (fault) => faults.push(fault), onInside: () => {} },
  );
  const before = counters.dropped.late;
  for (let i = 0; i < messages; i += 1) {
    ingest.push(MESSAGES[i % MESSAGES.length]!, nowMs);
    if (i % 2 === 0) decoder.release();
    await new Promise(setImmediate);
    nowMs += MESSAGE_MS;
  }
  ingest.close();
  return { delaysMs, faults, dropped: counters.dropped.late - before };
}

test('frames for which the decoder has half of the time that it needs: a part is dropped, and the rest is heard within 3.5 s', async () => {
  const { delaysMs, faults, dropped } = await hearLate(600);
  expect(faults).toEqual([]);
  expect(Math.max(...delaysMs)).toBeLessThan(3500);
  // A minute of frames of 21 ms, of which half is decoded.
  expect(dropped).toBeGreaterThan(1000);
  expect(delaysMs.length).toBeGreaterThan(1000);
});

test.each([
  ['mp4_aac', 'speech.mp4'],
  ['flac', 'speech.flac'],
])(
  'undeclared %s while the decoder hangs over another stream for 20 s: is not taken for unknown, and is heard after it',
  async (codec, name) => {
    const decoder = new StallingDecoder({ samplesPerFrame: 1024, rateHz: 48_000 });
    const { input, packets, detected, relayed, faults, send } = openTimedClient(decoder.in(codecs));
    const file = readFixture(name);
    const messages = cutInto(file, [Math.ceil((file.length * MESSAGE_MS) / 2600)]);
    await send(messages, MESSAGE_MS);
    decoder.isStalled = true;
    for (let i = 0; i < 8; i += 1) await send(messages, MESSAGE_MS);
    const before = packets.length;
    decoder.isStalled = false;
    decoder.release();
    await send(messages, MESSAGE_MS);
    expect(packets.length).toBeGreaterThan(before);
    expect(detected.map(({ format }) => format)).toEqual([codec]);
    expect(relayed).toEqual([]);
    expect(faults).toEqual([]);
    input.close();
  },
);
