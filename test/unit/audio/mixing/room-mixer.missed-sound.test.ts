import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { type AudioFormat, type Delivery, FRAME_SAMPLES } from '../../../../src/audio/format.ts';
import { SENDERS, sayTrack } from '../../../support/senders.ts';
import { type Arrival, type Heard, SimulatedRoom } from '../../../support/simulated-room.ts';
import { rmsOf, spokenTrack } from '../../../support/speech.ts';

/** A listener that was sent nothing during a stall, from the middle of a loud word on, hears what is said then as loud as it is. */

const OPUS: AudioFormat = { codec: 'opus' };
const [STALLED_MS, AFTER_MS] = [600, 200];
/** Length of the end of what was heard before the stall, samples, which fades in the first packet after it: 5 ms. */
const FADED_SAMPLES = 240;
/** Level below which frames are not told apart, dBov. */
const LEAST_DB = -60;
const [LOUD_DB, SOFT_DB] = [-12, -38];

let codecs: Codecs;
/** Streams of two speakers. */
let streams: Arrival[][];
/** Middles of loud words, after which soft ones follow within the stall. */
let momentsMs: number[];
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
  const tracks = await Promise.all(
    [1, 2].map((seed) => spokenTrack({ words: 10, pauseMs: 60, levelDb: LOUD_DB, seed })),
  );
  for (const { sound, words } of tracks) {
    // Every other word is soft.
    for (const { fromSample, samples } of words.filter((_, i) => i % 2 === 1)) {
      const word = sound.subarray(fromSample, fromSample + samples);
      word.set(word.map((sample) => sample * 10 ** ((SOFT_DB - LOUD_DB) / 20)));
    }
  }
  const said = await Promise.all(
    tracks.map((track, i) => sayTrack(codecs, 'ab'[i]!, SENDERS.celt, track)),
  );
  streams = said.map(({ arrivals }) => arrivals);
  momentsMs = said[0]!.words
    .filter((_, i) => i % 2 === 0)
    .slice(1)
    .map(({ fromSample, samples }) => (fromSample + samples / 2) / 48);
});

/** Decodes the frames of one speaker, or of the mix, and returns the level of each that comes at `fromMs` or later. */
async function levelsFrom({ frames, framesAtMs, listener }: Heard, fromMs: number) {
  const decoder = await codecs.opus.createDecoder();
  const isApart = listener.delivery === 'forward';
  const levels = frames.flatMap((frame, i) => {
    if (isApart && frame.readUInt16BE(2) !== 1) return [];
    const sound = decoder.decode(isApart ? frame.subarray(4) : frame).slice();
    if (framesAtMs[i]! < fromMs) return [];
    const level = rmsOf(sound.subarray(FADED_SAMPLES, FRAME_SAMPLES));
    return [Math.max(LEAST_DB, 20 * Math.log10(level))];
  });
  decoder.close();
  return levels;
}

const cases: [string, Delivery, number][] = [
  ['one speaker', 'mix', 1],
  ['two speakers', 'mix', 2],
  ['one speaker, apart', 'forward', 1],
  ['two speakers, apart', 'forward', 2],
];

test.each(cases)(
  '%s: within 2 dB of what a listener hears that joins then',
  async (_, delivery, speakers) => {
    const spoken = streams.slice(0, speakers);
    for (const stallMs of momentsMs) {
      const room = new SimulatedRoom(codecs, ['a', 'b']);
      const heard = room.listen('x', OPUS, delivery);
      room.listen('other', OPUS, delivery);
      const during = (fromMs: number, untilMs: number) =>
        spoken.map((stream) => stream.filter(({ atMs }) => atMs >= fromMs && atMs < untilMs));
      const readsAtMs = stallMs + STALLED_MS;
      await room.play(...during(0, stallMs));
      const before = heard.frames.length;
      await room.play(...during(stallMs, readsAtMs));
      await room.passTo(readsAtMs);
      heard.frames.length = before;
      heard.framesAtMs.length = before;
      const listener = { ...heard.listener };
      room.mixer.updateListener(heard.listener, listener, true);
      heard.listener = listener;
      const joined = room.listen('y', OPUS, delivery);
      await room.play(...during(readsAtMs, readsAtMs + AFTER_MS));
      room.mixer.close();
      expect(room.faults).toEqual([]);
      const [again, anew] = [
        await levelsFrom(heard, readsAtMs),
        await levelsFrom(joined, readsAtMs),
      ];
      expect(again.length).toBeGreaterThan(6);
      const differences = anew.map((db, i) => again[i]! - db);
      expect(Math.max(...differences.map(Math.abs))).toBeLessThan(2);
    }
  },
);
