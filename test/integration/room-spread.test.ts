import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { observer } from 'mediasoup';
import type { WebRtcServer } from 'mediasoup/types';
import { expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { readSettings } from '../../config/settings.ts';
import { counters } from '../../src/counters.ts';
import { Branch } from '../../src/media/branch.ts';
import { MediaWorkerPool } from '../../src/media/media-worker-pool.ts';
import type { RoomRouter } from '../../src/media/room-router.ts';
import { WebRtcLeg } from '../../src/media/webrtc-leg.ts';
import { RoomMedia } from '../../src/rooms/room-media.ts';
import { eventually, freeRtcPort, silentLog } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

/** Rooms whose browsers are spread over several media workers: real processes, without sound. */

const { cleanUps } = useStack();

async function openPool(
  mediaWorkers: number,
  routerMaxConsumers: number,
  timings: Partial<typeof DEFAULT_TIMINGS.mediaWorkers> = {},
): Promise<MediaWorkerPool> {
  const pool = await MediaWorkerPool.open(
    {
      mediaWorkers,
      workerBin: readSettings({}).MEDIASOUP_WORKER_BIN,
      rtcAddresses: () => [{ ip: '127.0.0.1', takesTcp: true, isSet: true }],
      routerMaxConsumers,
      rtcPort: freeRtcPort(),
      timings: { ...DEFAULT_TIMINGS.mediaWorkers, ...timings },
    },
    silentLog,
  );
  cleanUps.push(() => pool.close());
  return pool;
}

const join = (room: RoomRouter) => room.openWebRtcLeg({ onFault: () => {} } as never);
const limit = (pid: number, files: number) =>
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${files}:`]);
const filesOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

/** Servers of the media workers, by process id. */
const servers = new Map<number, WebRtcServer>();
observer.on('newworker', ({ pid, observer: events }) =>
  events.on('newwebrtcserver', (server) => servers.set(pid, server)),
);
/** Counts the browsers on each media worker, which have two transports each. */
const legsOf = (pool: MediaWorkerPool) =>
  Promise.all(
    pool.pids.map(async (pid) => (await servers.get(pid)!.dump()).webRtcTransportIds.length / 2),
  );
const routersOf = (pool: MediaWorkerPool) => pool.describe().map(({ routers }) => routers);

test('a room that cannot be spread leaves nothing open, counts the shortage, and tries again only later', async () => {
  const warn = vi.spyOn(silentLog, 'warn');
  onTestFinished(() => warn.mockRestore());
  const failures = () => warn.mock.calls.filter(([, words]) => words === 'room not spread').length;
  const pool = await openPool(2, 1, { spreadAgainAfterMs: 4000 });
  const [first, second] = pool.pids as [number, number];
  const room = await pool.openRouter(() => {});
  cleanUps.push(() => room.close());
  await room.plainLeg.produce();
  await join(room);
  const before = { files: filesOf(first), shortages: counters.shortages.descriptors };
  limit(second, 3);
  const failedAtMs = performance.now();
  for (let browsers = 0; browsers < 3; browsers += 1) await join(room);
  await eventually('its end of the pipe is closed', () => filesOf(first) === before.files, 5000);
  expect(failures()).toBe(1);
  expect(counters.shortages.descriptors).toBe(before.shortages + 1);
  expect(routersOf(pool)).toEqual([1, 0]);

  limit(second, 1024);
  await eventually('it is spread', async () => {
    await join(room);
    return routersOf(pool)[1] === 1;
  });
  expect(performance.now() - failedAtMs).toBeGreaterThan(4000);
  expect(failures()).toBe(1);
});

test('a room whose next media worker has no descriptors is spread to another one, and nothing is short', async () => {
  const warn = vi.spyOn(silentLog, 'warn');
  onTestFinished(() => warn.mockRestore());
  const pool = await openPool(3, 1);
  const room = await pool.openRouter(() => {});
  cleanUps.push(() => room.close());
  await room.plainLeg.produce();
  await join(room);
  limit(pool.pids[1]!, 3);
  const before = counters.shortages.descriptors;
  await join(room);
  expect(routersOf(pool)).toEqual([1, 0, 1]);
  expect(warn.mock.calls).toMatchObject([[{ mediaWorker: 1 }, 'room not spread']]);
  expect(counters.shortages.descriptors).toBe(before);
});

/** Opens the router of a room with speakers, and browsers that come at the same moment. */
async function crowd(pool: MediaWorkerPool, speakers: number, browsers: number) {
  const room = await pool.openRouter(() => {});
  cleanUps.push(() => room.close());
  for (let speaker = 0; speaker < speakers; speaker += 1) await room.plainLeg.produce();
  await Promise.all(Array.from({ length: browsers }, () => join(room)));
  return { room };
}

test('browsers that come at the same moment are spread as if they had come one after the other', async () => {
  const pool = await openPool(3, 8);
  await crowd(pool, 4, 12);
  expect(routersOf(pool)).toEqual([1, 1, 1]);
  expect(await legsOf(pool)).toEqual([4, 4, 4]);
});

test('a browser that cannot be let in takes no capacity from the next one', async () => {
  const pool = await openPool(2, 8);
  const { room } = await crowd(pool, 4, 1);
  const open = vi.spyOn(WebRtcLeg, 'open').mockRejectedValueOnce(new Error('refused'));
  onTestFinished(() => open.mockRestore());
  await expect(join(room)).rejects.toThrow('refused');
  await join(room);
  expect(await legsOf(pool)).toEqual([2, 0]);
  await join(room);
  expect(await legsOf(pool)).toEqual([2, 1]);
});

/** A room with one browser, whose media worker takes another once the `second` of its two speakers has left. */
async function openFullRoom() {
  const pool = await openPool(2, 2);
  const room = await pool.openRouter(() => {});
  cleanUps.push(() => room.close());
  await room.plainLeg.produce();
  const second = await room.plainLeg.produce();
  await join(room);
  return { pool, room, second };
}

test('a media worker to which a room was spread is left again if its first browser finds a place on the one before', async () => {
  const { pool, room, second } = await openFullRoom();
  // The first is full.
  const joining = join(room);
  second.close();
  await joining;
  expect(await legsOf(pool)).toEqual([2, 0]);
  expect(routersOf(pool)).toEqual([1, 0]);
  await room.plainLeg.produce();
  await join(room);
  expect(await legsOf(pool)).toEqual([2, 1]);
});

test('a media worker to which a room was spread is kept for the second of two browsers that waited for it', async () => {
  const { pool, room, second } = await openFullRoom();
  const joining = [join(room), join(room)];
  // The first is full with one more.
  second.close();
  const open = vi.spyOn(Branch, 'open');
  onTestFinished(() => open.mockRestore());
  await Promise.all(joining);
  expect(open).toHaveBeenCalledTimes(0);
  expect(await legsOf(pool)).toEqual([2, 1]);
  expect(routersOf(pool)).toEqual([1, 1]);
});

/** RTP parameters of a browser's microphone. */
const rtpParameters = {
  mid: '0',
  codecs: [{ mimeType: 'audio/opus', payloadType: 111, clockRate: 48000, channels: 2 }],
  headerExtensions: [{ uri: 'urn:ietf:params:rtp-hdrext:ssrc-audio-level' as const, id: 1 }],
  encodings: [{ ssrc: 1000 }],
  rtcp: { cname: 'test' },
};

test.each(['first', 'second'] as const)(
  'a room that is rebuilt after the death of its %s media worker expects the speakers that it had',
  async (which) => {
    const pool = await openPool(2, 8);
    const rebuilt: RoomRouter[] = [];
    const media = await RoomMedia.open(pool, silentLog, {
      onLost: () => {},
      onReplaced: (router) => rebuilt.push(router),
    });
    cleanUps.push(() => media.close());
    const lose = async (pid = 0) => {
      const before = rebuilt.length;
      process.kill(pid, 'SIGKILL');
      await eventually('it is rebuilt', () => rebuilt.length > before && pool.pids.length === 2);
    };
    for (let speaker = 0; speaker < 3; speaker += 1) await media.router.plainLeg.produce();
    (await media.router.plainLeg.produce()).close();
    for (let browsers = 0; browsers < 3; browsers += 1) await join(media.router);
    const fourth = await join(media.router);
    await fourth.produce(fourth.sendTransport.id, rtpParameters);
    expect(await legsOf(pool)).toEqual([3, 1]);
    await lose(which === 'first' ? pool.pids[0] : pool.pids[1]);
    // No client has spoken in this one yet.
    await lose(pool.describe().find(({ routers }) => routers === 1)?.pid);
    await Promise.all(Array.from({ length: 6 }, () => join(media.router)));
    expect(await legsOf(pool)).toEqual([3, 3]);
    expect(media.router.expectedSpeakers).toBe(4);
    // Speakers that end are expected no more.
    const speaker = await media.router.plainLeg.produce();
    speaker.close();
    expect(media.router.expectedSpeakers).toBe(3);
  },
);
