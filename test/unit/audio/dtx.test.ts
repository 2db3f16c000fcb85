import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat } from '../../../src/audio/format.ts';
import { compareWords, reportWords } from '../../support/heard-words.ts';
import { SENDERS, sayTrack } from '../../support/senders.ts';
import { SimulatedRoom, soundOf } from '../../support/simulated-room.ts';
import { spokenTrack } from '../../support/speech.ts';

/** A browser with DTX, which sends little in a pause: it is unmuted in the pause before each word, or what it sends there is lost. */

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
/** A timestamp of 32 bits wraps from here on within the fourth word. */
const NEARLY_WRAPPED = 2 ** 32 - 48 * 11_000;

let codecs: Codecs;
let said: Awaited<ReturnType<typeof sayTrack>>;
/** Packets that a browser sends: an empty one at most every 400 ms. */
let sent: typeof said.arrivals;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const track = await spokenTrack({ words: 16, pauseMs: 2500 });
  said = await sayTrack(codecs, 'a', SENDERS.dtx, track);
  let emptyAtMs = -Infinity;
  sent = said.arrivals.filter(({ packet, atMs }) => {
    if (packet.payload.length > 2) return true;
    if (atMs - emptyAtMs < 400) return false;
    emptyAtMs = atMs;
    return true;
  });
});

type Muted = { isInWord?: boolean; fromTimestamp?: number };

/**
 * Hears all words; the speaker is muted after each, and unmuted `beforeMs` before the next.
 * @param isInWord it is muted in the middle of every other word
 */
async function hear(
  format: AudioFormat,
  beforeMs: number,
  { isInWord = false, fromTimestamp = 0 }: Muted = {},
) {
  const room = new SimulatedRoom(codecs, ['a']);
  const heard = room.listen('x', format);
  let [at, sequenceNumber] = [0, 0];
  for (const [i, { fromSample, samples }] of said.words.entries()) {
    const fromMs = fromSample / 48;
    const unmutedAtMs = fromMs - beforeMs;
    const mutedAtMs = fromMs + (isInWord && i % 2 === 0 ? samples / 96 : samples / 48 + 300);
    // Packets of the mute do not come, and a consumer of mediasoup numbers on.
    while (at < sent.length && sent[at]!.atMs < unmutedAtMs) at += 1;
    await room.passTo(unmutedAtMs);
    room.mixer.setMuted('a', false, room.nowMs);
    const due = [];
    for (; at < sent.length && sent[at]!.atMs < mutedAtMs; at += 1) {
      const { packet, ...arrival } = sent[at]!;
      const timestamp = (packet.timestamp + fromTimestamp) >>> 0;
      due.push({ ...arrival, packet: { ...packet, timestamp, sequenceNumber } });
      sequenceNumber += 1;
    }
    await room.play(due);
    await room.passTo(mutedAtMs);
    room.mixer.setMuted('a', true, room.nowMs);
  }
  await room.pause(500);
  room.mixer.close();
  return compareWords(said.reference, await soundOf(codecs, heard), said.words);
}

const formats: [string, AudioFormat][] = [
  ['PCM', PCM],
  ['Opus', OPUS],
];

describe.each(formats)('a mix as %s', (_, format) => {
  test.each([[200], [400], [600]])(
    'unmuted %i ms before a word: nothing of the word is cut',
    async (beforeMs) => {
      const errors = await hear(format, beforeMs);
      expect(reportWords(errors)).toMatchObject({ soft: 0, missing: 0, loud3: 0 });
    },
  );

  test('after a mute in the middle of the word before', async () => {
    const heard = await hear(format, 300, { isInWord: true });
    const errors = heard.filter((_error, i) => i % 2 === 1);
    expect(reportWords(errors)).toMatchObject({ soft: 0, missing: 0, loud3: 0 });
  });
});

test('a timestamp that wraps', async () => {
  const errors = await hear(PCM, 400, { fromTimestamp: NEARLY_WRAPPED });
  expect(reportWords(errors)).toMatchObject({ soft: 0, missing: 0, loud3: 0 });
});

test('the last four packets before each word are lost: no word is too loud in a mix as PCM', async () => {
  const room = new SimulatedRoom(codecs, ['a']);
  const heard = room.listen('x', PCM);
  const numbered = sent.map((arrival, sequenceNumber) => ({
    ...arrival,
    packet: { ...arrival.packet, sequenceNumber },
  }));
  const firsts = said.words.map(({ fromSample }) =>
    numbered.findIndex(({ atMs }) => atMs >= fromSample / 48),
  );
  await room.play(numbered.filter((_packet, i) => !firsts.some((at) => i < at && i >= at - 4)));
  await room.pause(500);
  room.mixer.close();
  const errors = compareWords(said.reference, await soundOf(codecs, heard), said.words);
  expect(reportWords(errors)).toMatchObject({ missing: 0, loud3: 0 });
});
