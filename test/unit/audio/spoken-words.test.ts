import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../../src/audio/format.ts';
import { compareWords, reportWords } from '../../support/heard-words.ts';
import {
  ODD_MESSAGES_MS,
  SENDERS,
  SENDERS_IN_CONTAINERS,
  SENDERS_OF_FILES,
  SENDERS_OF_SAMPLES,
  type Sender,
  sayTrack,
} from '../../support/senders.ts';
import { joinAll, SimulatedRoom, soundOf } from '../../support/simulated-room.ts';
import { noise, spokenTrack, type Track, type TrackOptions } from '../../support/speech.ts';

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const SPEECH: TrackOptions = { words: 6, pauseMs: 900 };

let codecs: Codecs;
let track: Track;
let few: Track;
let answers: Track;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  track = await spokenTrack(SPEECH);
  few = await spokenTrack({ words: 3, pauseMs: 500 });
  answers = await spokenTrack({ ...SPEECH, voice: 'en-us+f3', seed: 5 });
});

/** No word begins more than 3 dB louder than it was sent, or for 40 ms more than 6 dB softer. */
const AS_SENT = { loud3: 0, soft: 0, missing: 0 };

type Subscription = { format: AudioFormat; delivery?: Delivery; besidePcm?: boolean };

const HEARINGS: [string, Subscription][] = [
  ['mixed, as samples', { format: PCM }],
  ['as sent', { format: OPUS }],
  ['as sent, at the pace of a mix', { format: OPUS, besidePcm: true }],
  ['apart', { format: OPUS, delivery: 'forward' }],
];

describe.each(Object.values(SENDERS).map((sender): [string, Sender] => [sender.name, sender]))(
  'words said as %s, heard',
  (_, sender) => {
    let said: Awaited<ReturnType<typeof sayTrack>>;
    beforeAll(async () => {
      said = await sayTrack(codecs, 'a', sender, track);
    });

    test.each(HEARINGS)('%s: each begins as it was said', async (_name, hearing) => {
      const { arrivals, reference, words } = said;
      const room = new SimulatedRoom(codecs, ['a']);
      if (hearing.besidePcm) room.listen('y', PCM);
      const heard = room.listen('x', hearing.format, hearing.delivery);
      await room.play(arrivals);
      room.mixer.close();
      const errors = compareWords(reference, await soundOf(codecs, heard), words);
      expect(reportWords(errors)).toMatchObject(AS_SENT);
    });

    test('by turns with those of another, as sent: each begins as it was said', async () => {
      const other = await sayTrack(codecs, 'b', sender, answers, 600);
      const room = new SimulatedRoom(codecs, ['a', 'b']);
      const heard = room.listen('x', OPUS);
      await room.play(said.arrivals, other.arrivals);
      room.mixer.close();
      const sound = await soundOf(codecs, heard);
      // Words of the two may overlap: only those are compared that begin in the other's pause.
      const alone = said.words.filter((word) => !overlaps(word, other.words, 600 * 48));
      expect(alone.length).toBeGreaterThan(1);
      expect(reportWords(compareWords(said.reference, sound, alone))).toMatchObject(AS_SENT);
    });
  },
);

test.each([...ODD_MESSAGES_MS, 60, 100, 120])(
  'words said as PCM, in messages of %f ms, heard as samples: each begins as it was said',
  async (packetMs) => {
    const sender = { ...SENDERS.pcm, packetMs };
    const { arrivals, reference, words } = await sayTrack(codecs, 'a', sender, track);
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', PCM);
    await room.play(arrivals);
    room.mixer.close();
    const errors = compareWords(reference, await soundOf(codecs, heard), words);
    expect(reportWords(errors)).toMatchObject(AS_SENT);
    // Packets come all at once, but always at the same pace: none is late.
    expect(heard.concealedMs).toBe(0);
  },
);

/** Reports a speaker's words as heard by a listener of each kind, in a room of its own. */
async function hearAll(sender: Sender, spoken: Track) {
  const { arrivals, reference, words } = await sayTrack(codecs, 'a', sender, spoken);
  // Beside a listener to samples, longer packets are encoded once more, which is another reference.
  const isLong = (sender.packetMs ?? 20) > 20;
  const reports = HEARINGS.filter(([, { besidePcm }]) => !(isLong && besidePcm)).map(
    async ([name, { format, delivery, besidePcm }]) => {
      const room = new SimulatedRoom(codecs, ['a']);
      if (besidePcm) room.listen('y', PCM);
      const heard = room.listen('x', format, delivery);
      await room.play(arrivals);
      room.mixer.close();
      return { name, ...reportWords(compareWords(reference, await soundOf(codecs, heard), words)) };
    },
  );
  return Promise.all(reports);
}

const { pcm, browser, celt } = SENDERS;

describe.each([pcm, browser].map((sender): [string, Sender] => [sender.name, sender]))(
  'words said as %s',
  (_, sender) => {
    test.each([
      [300, 5],
      [3000, 4],
      [30_000, 2],
    ])('after pauses of %i ms: each begins as it was said', async (pauseMs, words) => {
      const spaced = await spokenTrack({ words, pauseMs });
      // The pause after the last word says nothing.
      const sound = spaced.sound.subarray(0, -48 * (pauseMs - 200));
      for (const report of await hearAll(sender, { ...spaced, sound })) {
        expect(report).toMatchObject({ ...AS_SENT, words });
      }
    });
  },
);

test.each([
  { ...celt, packetMs: 2.5 },
  { ...celt, packetMs: 10 },
  { ...browser, packetMs: 10 },
  { ...browser, packetMs: 40 },
  { ...browser, packetMs: 120 },
  ...SENDERS_OF_SAMPLES.filter(({ name }) => /44.1 kHz|float|µ-law/.test(name)).map((sender) => ({
    ...sender,
    packetMs: 20,
  })),
])(
  'words said as $name, in packets of $packetMs ms: each begins as it was said',
  async (sender) => {
    for (const report of await hearAll(sender, track)) {
      expect(report).toMatchObject({ ...AS_SENT, words: 6 });
    }
  },
);

test.each([
  { ...celt, packetMs: 5 },
  { ...browser, packetMs: 80 },
  { ...browser, packetMs: 100 },
  ...[...SENDERS_OF_SAMPLES, ...SENDERS_IN_CONTAINERS, ...SENDERS_OF_FILES]
    .filter(({ name }) => !/44.1 kHz|float|µ-law/.test(name))
    .map((sender) => ({ ...sender, packetMs: 20 })),
])(
  'three words said as $name, in packets of $packetMs ms: each begins as it was said',
  async (sender) => {
    for (const report of await hearAll(sender, few)) {
      expect(report).toMatchObject({ ...AS_SENT, words: 3 });
    }
  },
);

/** Time for which a noise lasts until it is not talk any more, ms, and a little. */
const NOISE_MS = 12_000;
const NOISE_DB = -45;

test.each([20, 60, 120])(
  'words said in the noise of a fan, as Opus in packets of %i ms: each begins as it was said',
  async (packetMs) => {
    const { sound, words } = await spokenTrack({ ...SPEECH, noiseDb: NOISE_DB });
    const before = noise(NOISE_DB, NOISE_MS, 9);
    const inNoise = {
      sound: joinAll([before, sound]),
      words: words.map((word) => ({ ...word, fromSample: word.fromSample + before.length })),
    };
    const said = await sayTrack(codecs, 'a', { ...SENDERS.browser, packetMs }, inNoise);
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', PCM);
    await room.play(said.arrivals);
    room.mixer.close();
    const errors = compareWords(said.reference, await soundOf(codecs, heard), said.words);
    expect(reportWords(errors)).toMatchObject(AS_SENT);
  },
);

type Word = Track['words'][number];

const overlaps = ({ fromSample, samples }: Word, others: Word[], laterSamples: number) =>
  others.some(
    (other) =>
      other.fromSample + laterSamples < fromSample + samples &&
      other.fromSample + laterSamples + other.samples > fromSample,
  );
