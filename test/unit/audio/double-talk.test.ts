import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat } from '../../../src/audio/format.ts';
import { saySoftly, SECOND_SPEAKER } from '../../support/entries.ts';
import {
  compareWords,
  findWord,
  joinPieces,
  reportWords,
  windowErrors,
} from '../../support/heard-words.ts';
import { SENDERS, type Sender, sayTrack } from '../../support/senders.ts';
import { type Arrival, SimulatedRoom, soundOf } from '../../support/simulated-room.ts';
import { rmsOf, spokenTrack, type Track } from '../../support/speech.ts';

/** Two speakers at the same time, compared with the sum of their own streams. */

const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const OPUS: AudioFormat = { codec: 'opus' };
const HEARINGS: [string, AudioFormat][] = [
  ['PCM', PCM],
  ['Opus', OPUS],
];
const OTHER_VOICE = 'en-us+f3';
/** Time after which the second speaker begins, so that words overlap; no multiple of a packet's duration. */
const SECOND_FROM_MS = 607;
const WINDOW_SAMPLES = 960;
/** Level of a window from which on it is compared, dBov. */
const COUNTED_DB = -51;

let codecs: Codecs;
let track: Track;
let dense: Track;
let answers: Track;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  track = await spokenTrack({ words: 6, pauseMs: 700 });
  dense = await spokenTrack({ words: 6, pauseMs: 60 });
  // It goes on for longer, so that each of the two is once heard alone.
  answers = await spokenTrack({ words: 8, pauseMs: 60, voice: OTHER_VOICE, seed: 5 });
});

type Said = Awaited<ReturnType<typeof sayTrack>>;

const levelOf = (sound: Float32Array) => 20 * Math.log10(rmsOf(sound) + 1e-9);

/** Returns the stream of a speaker that begins at `fromMs`, at the times at which it is heard: as much later as one of its words. */
function asHeard(
  { reference, words }: Said,
  fromMs: number,
  timeline: Float32Array,
  byWord: number,
) {
  const fromSample = fromMs * 48;
  const placed = new Float32Array(timeline.length);
  placed.set(reference.subarray(0, timeline.length - fromSample), fromSample);
  const { fromSample: inStream, samples } = words.at(byWord)!;
  const off = findWord(placed, timeline, { fromSample: fromSample + inStream, samples });
  const later = new Float32Array(timeline.length);
  later.set(placed.subarray(0, timeline.length - off!), off);
  return later;
}

/** Level errors of all windows of 20 ms against the sum of two streams, heard as PCM, dB. As Opus each is sent as it is while it is alone, at another delay. */
async function hearBoth(sender: Sender): Promise<number[]> {
  const one = await sayTrack(codecs, 'a', sender, dense);
  const other = await sayTrack(codecs, 'b', sender, answers, SECOND_FROM_MS);
  const room = new SimulatedRoom(codecs, ['a', 'b']);
  const heard = room.listen('x', PCM);
  await room.play(one.arrivals, other.arrivals);
  room.mixer.close();
  const timeline = joinPieces(await soundOf(codecs, heard));
  // The second begins within the words of the first, which ends first.
  const [ofOne, ofOther] = [
    asHeard(one, 0, timeline, 0),
    asHeard(other, SECOND_FROM_MS, timeline, -1),
  ];
  const sum = ofOne.map((sample, i) => sample + ofOther[i]!);
  const errors: number[] = [];
  for (let at = 0; at < SECOND_FROM_MS * 48 + other.reference.length; at += WINDOW_SAMPLES) {
    const [asSent, isHeard] = [sum, timeline].map((s) => s.subarray(at, at + WINDOW_SAMPLES));
    if (levelOf(asSent!) >= COUNTED_DB) errors.push(levelOf(isHeard!) - levelOf(asSent!));
  }
  return errors;
}

const { pcm, browser, celt } = SENDERS;

describe.each([pcm, browser, celt].map((sender): [string, Sender] => [sender.name, sender]))(
  '%s',
  (_, sender) => {
    test('two whose words overlap, heard as PCM: their sum, within 1 dB', async () => {
      const errors = await hearBoth(sender);
      expect(errors.length).toBeGreaterThan(150);
      expect(Math.max(...errors.map(Math.abs))).toBeLessThan(1);
    });

    test.each(HEARINGS)(
      'words beside another that talks softly all the time, heard as %s: each begins as it was said',
      async (_name, format) => {
        const { arrivals, reference, words } = await sayTrack(codecs, 'a', sender, track);
        const room = new SimulatedRoom(codecs, ['a', SECOND_SPEAKER]);
        const heard = room.listen('x', format);
        await room.play(arrivals, await saySoftly(arrivals.at(-1)!.atMs));
        room.mixer.close();
        const errors = compareWords(reference, await soundOf(codecs, heard), words);
        expect(reportWords(errors)).toMatchObject({ words: 6, loud3: 0, soft: 0, missing: 0 });
      },
    );

    test.each([
      ['PCM', 1, PCM],
      ['Opus', 3, OPUS],
    ] as const)(
      'one that goes on while another leaves in mid-word, heard as %s: within %i dB of what was sent',
      async (_name, mostDb, format) => {
        const errors = await hearOtherLeave(sender, format);
        expect(errors.length).toBeGreaterThan(60);
        expect(Math.max(...errors.map(Math.abs))).toBeLessThan(mostDb);
      },
    );
  },
);

/** Time for which a speaker that leaves is still heard, ms. */
const FADE_MS = 40;
/** Time after its word at which it comes back, ms. */
const BACK_AFTER_MS = 200;

/** Level errors of one that goes on, dB; another leaves in the middle of each of its words, and comes back. */
async function hearOtherLeave(sender: Sender, format: AudioFormat): Promise<number[]> {
  const one = await sayTrack(codecs, 'a', sender, await spokenTrack({ words: 12, pauseMs: 60 }));
  const turns = await spokenTrack({ words: 4, pauseMs: 900, voice: OTHER_VOICE });
  const other = await sayTrack(codecs, 'b', SENDERS.browser, turns);
  const room = new SimulatedRoom(codecs, ['a', 'b']);
  const heard = room.listen('x', format);
  const [ofOne, ofOther] = [[...one.arrivals], [...other.arrivals]];
  const takeUntil = (arrivals: Arrival[], ms: number) => {
    const end = arrivals.findIndex(({ atMs }) => atMs >= ms);
    return arrivals.splice(0, end === -1 ? arrivals.length : end);
  };
  const otherSound = other.reference.slice();
  for (const { fromSample, samples } of other.words) {
    const leavesAtMs = (fromSample + samples / 2) / 48;
    const backAtMs = (fromSample + samples) / 48 + BACK_AFTER_MS;
    await room.play(takeUntil(ofOne, leavesAtMs), takeUntil(ofOther, leavesAtMs));
    room.mixer.removeSpeaker('b');
    takeUntil(ofOther, backAtMs);
    await room.play(takeUntil(ofOne, backAtMs));
    room.mixer.addSpeaker('b', 2);
    otherSound.fill(0, Math.round((leavesAtMs + FADE_MS) * 48), Math.round(backAtMs * 48));
  }
  await room.play(ofOne);
  room.mixer.close();
  return windowErrors(one.reference, await soundOf(codecs, heard), one.words, otherSound);
}
