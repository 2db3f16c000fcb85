import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { type AudioFormat, type Delivery, FRAME_SAMPLES } from '../../../../src/audio/format.ts';
import { SENDERS, sayTrack } from '../../../support/senders.ts';
import {
  type Arrival,
  type Heard,
  SimulatedRoom,
  soundOf,
} from '../../../support/simulated-room.ts';
import { rmsOf, spokenTrack, type Word } from '../../../support/speech.ts';

/** A listener that goes over to a mix that another hears already hears it as loud as one whose mix has an encoder of its own. */

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const LOUD = 'b';
/** Level of each speaker's words, dBov. */
const LEVELS_DB: Record<string, number> = { a: -42, [LOUD]: -14, c: -42 };
const NAMES = Object.keys(LEVELS_DB);
const WINDOWS = 8;
/** Level below which windows are not told apart, dBov. */
const LEAST_DB = -55;

let codecs: Codecs;
let streams: Arrival[][];
/** Words of the loud speaker. */
let words: Word[];
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
  const said = await Promise.all(
    Object.entries(LEVELS_DB).map(async ([name, levelDb], i) => {
      const track = await spokenTrack({ words: 10, pauseMs: 60 + 20 * i, levelDb, seed: i + 1 });
      return sayTrack(codecs, name, SENDERS.pcm, track);
    }),
  );
  streams = said.map(({ arrivals }) => arrivals);
  words = said[1]!.words;
});

type Change = {
  name: string;
  delivery: Delivery;
  /** True if the listener joins only then. */
  joins?: boolean;
  run: (room: SimulatedRoom, heard: Heard) => void;
};

const CHANGES: Change[] = [
  {
    name: 'turns the loud one of three speakers off',
    delivery: 'mix',
    run: (room, heard) => room.setVolume(heard, { [LOUD]: 0 }),
  },
  {
    name: 'joins',
    delivery: 'mix',
    joins: true,
    run: (room, { listener }) => room.mixer.addListener(listener),
  },
  {
    name: 'joins, and hears each speaker separately',
    delivery: 'forward',
    joins: true,
    run: (room, { listener }) => room.mixer.addListener(listener),
  },
];

/**
 * Returns the levels that a listener hears in the windows of 20 ms after a change, dB; of one that hears each speaker separately those of
 * the loud one.
 * @param isShared true if others hear the same mixes as Opus before
 */
async function levelsAfter(
  { delivery, joins, run }: Change,
  atMs: number,
  isShared: boolean,
): Promise<number[]> {
  const room = new SimulatedRoom(codecs, NAMES);
  const heard = room.prepare('x', OPUS, delivery);
  const during = (fromMs: number, untilMs: number) =>
    streams.map((stream) => stream.filter((each) => each.atMs >= fromMs && each.atMs < untilMs));
  await room.play(...during(0, atMs - 400));
  await room.passTo(atMs - 400);
  if (!joins) room.mixer.addListener(heard.listener);
  for (const name of [...NAMES, 'other']) {
    if (isShared) room.listen(name, OPUS, delivery);
    else room.listen(name, PCM);
  }
  await room.play(...during(atMs - 400, atMs));
  await room.passTo(atMs);
  run(room, heard);
  await room.play(...during(atMs, atMs + 300));
  room.mixer.close();
  expect(room.faults).toEqual([]);
  const isHeard = (frame: Buffer) =>
    delivery === 'mix' || frame.readUInt16BE(2) === NAMES.indexOf(LOUD) + 1;
  const frames = heard.frames.filter(isHeard);
  const framesAtMs = heard.framesAtMs.filter((_, i) => isHeard(heard.frames[i]!));
  const first = framesAtMs.findIndex((each) => each >= atMs);
  const { listener } = heard;
  const [piece] = await soundOf(codecs, { frames, framesAtMs, listener }, first);
  return Array.from({ length: WINDOWS }, (_, i) => {
    const level = rmsOf(piece!.sound.subarray(i * FRAME_SAMPLES, (i + 1) * FRAME_SAMPLES));
    return Math.max(LEAST_DB, 20 * Math.log10(level));
  });
}

test.each(CHANGES.map((change): [string, Change] => [change.name, change]))(
  'a listener that %s in the middle of a word: within 2 dB from the first frame on',
  async (_, change) => {
    // At the first words the speakers do not talk at the same time yet.
    for (const { fromSample, samples } of words.slice(2)) {
      const atMs = (fromSample + samples / 2) / 48;
      const shared = await levelsAfter(change, atMs, true);
      const own = await levelsAfter(change, atMs, false);
      const differences = shared.map((db, i) => db - own[i]!);
      expect(Math.max(...differences.map(Math.abs))).toBeLessThan(2);
    }
  },
);
