import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import type { FramePaths } from '../support/frame-path.ts';

/** Counts the files through which a frame of a legacy Opus client goes (docs/architecture.md). */

/** Files of the mixer, by which a frame is heard that goes down; it comes up to the mixer, too. */
const OF_MIXER = /^(audio\/mixing\/|rtp\/(reorderer|splice|sequence)\.ts$)/;
/** Files that are given the frame, and give it back. */
const BESIDE_UP = ['rtp/pacer.ts', 'rtp/packetizer.ts', 'rtp/packet.ts'];
const BESIDE_DOWN = [
  'rtp/splice.ts',
  'rtp/reorderer.ts',
  'audio/mixing/packet-history.ts',
  'session/binary-frame.ts',
];

let paths: FramePaths;
beforeAll(async () => {
  const program = fileURLToPath(new URL('../support/frame-path.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program], { timeout: 80_000 });
  paths = JSON.parse(stdout) as FramePaths;
});

test('a frame is carried to mediasoup by at most 10 files, none twice', () => {
  const { column, entered } = paths.up;
  expect(column).toEqual([
    'session/turns.ts',
    'session/session.ts',
    'session/client-input.ts',
    'audio/ingest/input.ts',
    'audio/ingest/opus-ingest.ts',
    'bridge/uplink.ts',
    'media/plain-leg.ts',
  ]);
  expect(entered).toEqual(expect.arrayContaining([...column, ...BESIDE_UP]));
  expect(column.length + BESIDE_UP.length).toBeLessThanOrEqual(10);
});

test('a frame enters at most 16 files on its way to mediasoup', () => {
  const entered = paths.up.entered.filter((file) => !OF_MIXER.test(file));
  // Names them all if there are more.
  expect(entered.length > 16 ? entered : []).toEqual([]);
});

test('a frame that is forwarded is carried down by at most 10 files, none twice', () => {
  const { column, entered } = paths.down;
  expect(column).toEqual([
    ...paths.up.column.slice(0, -1),
    'audio/mixing/room-mixer.ts',
    'audio/mixing/room-speaker.ts',
    'rooms/websocket-peer.ts',
    'session/session.ts',
    'session/send-queue.ts',
  ]);
  const down = column.slice(paths.up.column.length - 1);
  expect(entered).toEqual(expect.arrayContaining([...down, ...BESIDE_DOWN]));
  expect(down.length + BESIDE_DOWN.length).toBeLessThanOrEqual(10);
});
