import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import type { FramePath, FramePaths } from '../support/frame-path.ts';
import { undisturbed } from '../support/listening.ts';

/**
 * Counts the files through which a frame of a legacy Opus client goes (docs/architecture.md), for each of twelve frames in steady state. A file
 * *carries* the frame if it is handed it and hands it on, as an argument or as what a call returns, towards where the frame leaves the gateway.
 * It is *entered* if one of its functions is called from the chunk of the socket, or from the call of the mixer, until the frame leaves.
 * All files of `src` count. The mixer is called once the frame has left for mediasoup, so that its files belong to the way down.
 */

const FRAMES = 12;
/** File that hands the frame to the mixer: it belongs to the way up. */
const UPLINK = 'bridge/uplink.ts';
/** File that carries a frame with which a ping goes, every 400 ms. */
const PINGS = 'session/pings.ts';

let paths: FramePaths;
beforeAll(async () => {
  const program = fileURLToPath(new URL('../support/frame-path.ts', import.meta.url));
  paths = await undisturbed(async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [program], { timeout: 80_000 });
    return JSON.parse(stdout) as FramePaths;
  });
});

/** Returns the files that hand a frame on, directly or through others, to the one from which it leaves, with that one. */
function carriersOf({ column, handOvers }: FramePath): string[] {
  const carriers = new Set([column.at(-1)!]);
  for (let before = 0; before < carriers.size;) {
    before = carriers.size;
    for (const { from, to } of handOvers) if (carriers.has(to)) carriers.add(from);
  }
  return [...carriers].toSorted();
}

/** Returns the files that carry a frame twice: handed to one of the column again, or given back by one beside it again. */
function twiceIn(path: FramePath): string[] {
  const { column, handOvers } = path;
  return carriersOf(path).filter((file) => {
    const isBeside = !column.includes(file);
    const times = handOvers.filter(({ by, from, to }) =>
      isBeside ? by === 'return' && from === file : by === 'call' && to === file,
    );
    return times.length > 1 || column.filter((each) => each === file).length > 1;
  });
}

/** Returns lists of files, the shortest first. */
const byLength = (lists: string[][]): string[][] =>
  lists.toSorted((one, other) => one.length - other.length).map((files) => files.toSorted());

/** Number of the followed frames that a check of the format may meet: it is made every few seconds, and when the pace of a busy machine changes. */
const MAX_CHECKED = 2;

/** Asserts that the median frame enters at most `most` files, and all that meet no check of the format at most `more` beyond that. A failure names the files. */
function expectEntered(lists: string[][], most: number, more = 0): void {
  const sorted = byLength(lists);
  const median = sorted[Math.floor(FRAMES / 2)]!;
  const longest = sorted.at(-1 - MAX_CHECKED)!;
  expect(median.length > most ? median : []).toEqual([]);
  expect(longest.length > most + more ? longest : []).toEqual([]);
}

test('a frame is carried to mediasoup by at most 10 files, none twice', () => {
  expect(paths.up).toHaveLength(FRAMES);
  for (const path of paths.up) {
    expect(path.column).toEqual([
      'session/turns.ts',
      'session/session.ts',
      'session/client-input.ts',
      'audio/ingest/input.ts',
      'audio/ingest/opus-ingest.ts',
      UPLINK,
      'media/plain-leg.ts',
    ]);
    const beside = ['rtp/pacer.ts', 'rtp/packetizer.ts', 'rtp/packet.ts'];
    expect(carriersOf(path)).toEqual([...path.column, ...beside].toSorted());
    expect(carriersOf(path).length).toBeLessThanOrEqual(10);
    expect(twiceIn(path)).toEqual([]);
  }
});

test('a frame enters at most 16 files on its way to mediasoup, four more where it is measured and compared', () => {
  const entered = paths.up.map((path) => path.entered);
  expect(byLength(entered)[0]).toEqual(expect.arrayContaining(carriersOf(paths.up[0]!)));
  expectEntered(entered, 16, 4);
});

test('a frame enters at most 30 files with those of the mixer, which hears it after that', () => {
  const entered = paths.up.map((path) => [...new Set([...path.entered, ...path.enteredAfter])]);
  expect(byLength(entered)[0]).toContain('audio/mixing/room-mixer.ts');
  expectEntered(entered, 30, 4);
});

/** Returns the part of a way down that begins with the mixer. */
function fromMixer(path: FramePath): FramePath {
  const handOvers = path.handOvers.filter(({ from }) => from !== UPLINK);
  return { ...path, column: path.column.slice(path.column.indexOf(UPLINK) + 1), handOvers };
}

test('a frame that is forwarded is carried down by at most 10 files, none twice', () => {
  expect(paths.down).toHaveLength(FRAMES);
  for (const path of paths.down.map(fromMixer)) {
    expect(path.column).toEqual([
      'audio/mixing/room-mixer.ts',
      'audio/mixing/room-speaker.ts',
      'rooms/websocket-peer.ts',
      'session/session.ts',
      'session/send-queue.ts',
    ]);
    const beside = [
      'rtp/splice.ts',
      'rtp/reorderer.ts',
      'audio/mixing/past-packet.ts',
      'session/binary-frame.ts',
    ];
    const carriers = carriersOf(path);
    const withoutPing = carriers.filter((file) => file !== PINGS);
    expect(withoutPing).toEqual([...path.column, ...beside].toSorted());
    expect(carriers.length).toBeLessThanOrEqual(10);
    expect(twiceIn(path)).toEqual([]);
  }
});

test('a frame that is forwarded enters at most 24 files on its way down', () => {
  const entered = paths.down.map((path) => path.entered);
  expect(byLength(entered)[0]).toEqual(
    expect.arrayContaining(carriersOf(fromMixer(paths.down[0]!)).filter((file) => file !== PINGS)),
  );
  expectEntered(entered, 24, 2);
});
