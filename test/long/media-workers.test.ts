import { existsSync } from 'node:fs';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { readSettings } from '../../config/settings.ts';
import { MediaWorkerPool } from '../../src/media/media-worker-pool.ts';
import type { RoomRouter } from '../../src/media/room-router.ts';
import type { ServerMessage } from '../../src/protocol/messages.ts';
import type { ClientConnection } from '../../src/rooms/peer.ts';
import type { Room } from '../../src/rooms/room.ts';
import { RoomMedia } from '../../src/rooms/room-media.ts';
import { WebRtcPeer } from '../../src/rooms/webrtc-peer.ts';
import type { TestClient } from '../support/client.ts';
import { eventually, freeRtcPort, silentLog, type TestGateway } from '../support/gateway.ts';
import { undisturbed, untilHeard } from '../support/listening.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** Media workers that die, hang and are loaded, without browsers: real processes, signals and packets. */

const { openGateway: openWith, connect, enter, cleanUps } = useStack();

const openGateway = (environment: Record<string, string> = {}) =>
  openWith({ MEDIA_WORKERS: '2', ...environment });

const MEDIA_SETTINGS = {
  mediaWorkers: 2,
  workerBin: readSettings({}).MEDIASOUP_WORKER_BIN,
  rtcAddresses: () => [{ ip: '127.0.0.1', takesTcp: true, isSet: true }],
  routerMaxConsumers: 4,
  timings: { ...DEFAULT_TIMINGS.mediaWorkers, firstReplacementMs: 200 },
};

async function openPool(mediaWorkers = 2): Promise<MediaWorkerPool> {
  const settings = { ...MEDIA_SETTINGS, mediaWorkers, rtcPort: freeRtcPort() };
  const pool = await MediaWorkerPool.open(settings, silentLog);
  cleanUps.push(() => pool.close());
  return pool;
}

/** A stopped media worker that a failed test has left would stay for ever. */
const stopped: number[] = [];
afterEach(() => {
  for (const pid of stopped.splice(0)) if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL');
});
function stop(pid: number): void {
  stopped.push(pid);
  process.kill(pid, 'SIGSTOP');
}

const pidsOf = (pool: MediaWorkerPool) => pool.describe().map(({ pid }) => pid);
const firstPidOf = (pool: MediaWorkerPool) => pool.describe()[0]?.pid ?? 0;
const closeAll = (rooms: RoomRouter[]) => rooms.forEach((room) => room.close());

describe('rooms are placed by load', () => {
  test('a burst of rooms spreads evenly, and closing them leaves nothing', async () => {
    const pool = await openPool();
    const opening = Array.from({ length: 40 }, () => pool.openRouter(() => {}));
    const rooms = await Promise.all(opening);
    expect(pool.describe().map(({ routers }) => routers)).toEqual([20, 20]);
    closeAll(rooms);
    expect(pool.describe()).toMatchObject([{ routers: 0 }, { routers: 0 }]);
    expect(await pool.countRouters()).toBe(0);
  });

  test('a media worker that is busy is left alone, whoever’s turn it is', async () => {
    const pool = await openPool();
    const busy = await pool.openRouter(() => {});
    const speaker = await busy.plainLeg.produce();
    const ears = Array.from({ length: 100 }, () =>
      busy.plainLeg.consume(speaker.id, busy.rtpCapabilities, () => {}),
    );
    await Promise.all(ears);
    expect(pool.describe()).toMatchObject([{ consumers: 100 }, { consumers: 0 }]);
    const rooms = await Promise.all(Array.from({ length: 8 }, () => pool.openRouter(() => {})));
    expect(pool.describe()).toMatchObject([{ routers: 1 }, { routers: 8 }]);
    closeAll([busy, ...rooms]);
    expect(pool.describe()).toMatchObject([{ consumers: 0 }, { consumers: 0 }]);
  });
});

describe('a media worker that hangs', () => {
  test('is killed and replaced on its port; its rooms are lost, once, and what waits for it rejects', async () => {
    const pool = await openPool(1);
    const before = pool.describe()[0];
    let losses = 0;
    const room = await pool.openRouter(() => (losses += 1));
    stop(firstPidOf(pool));
    await expect(room.plainLeg.produce()).rejects.toThrow('Channel closed');
    await eventually('its process has gone', () => !existsSync(`/proc/${before?.pid}`));
    await eventually('it is replaced', () => pool.pids.length === 1);
    expect(losses).toBe(1);
    expect(pool.describe()).toMatchObject([
      { state: 'running', rtcPort: before?.rtcPort, restarts: 1, routers: 0 },
    ]);
    expect(pidsOf(pool)).not.toContain(before?.pid);
  });

  test('a room that opens on it opens on another', async () => {
    const pool = await openPool();
    stop(firstPidOf(pool));
    const rooms = await Promise.all([0, 1].map(() => pool.openRouter(() => {})));
    expect(await pool.countRouters()).toBe(2);
    closeAll(rooms);
  });

  test('is not left behind when the pool is closed', async () => {
    const pool = await openPool();
    const pid = firstPidOf(pool);
    stop(pid);
    await pool.close();
    expect(existsSync(`/proc/${pid}`)).toBe(false);
  });

  test('WebSocket peers hear every frame, a browser is told once, and the room goes on', async () => {
    const tone = await opusTone(1000, 0.5, 3000);
    const { asker, frames } = await undisturbed(async () => {
      const gateway = await openGateway();
      const [alice, bob] = [await enter(gateway, 'alice'), await enter(gateway, 'bob')];
      const browser = await enterAsBrowser(gateway, 'browser');
      const playing = play(alice, tone);
      await untilHeard('it is heard', () => bob.frames.length > 10);
      for (const pid of gateway.mediaWorkerPids()) stop(pid);
      const { webrtc } = await browser.next('joined');
      const transport_id = webrtc!.send_transport.id;
      browser.send({ type: 'restart_ice', id: 'asked in vain', transport_id });
      await browser.next('media_restarted');
      await playing;
      await untilHeard('every frame is heard', () => bob.frames.length === tone.length);
      return { asker: browser, frames: bob.frames };
    });
    const refusal = { code: 'media_lost', retryable: true, reply_to: 'asked in vain' };
    expect(await asker.next('error')).toMatchObject(refusal);
    expect(frames).toEqual(tone);
    await asker.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    const told = asker.messages.filter(({ type }) => type === 'media_restarted');
    expect(told).toHaveLength(1);
  });
});

test('while the media workers hang: who begins to speak is not thrown out, a browser that comes waits', async () => {
  const tone = await opusTone(1000, 0.5, 3000);
  const clients = await undisturbed(async () => {
    const gateway = await openGateway();
    const [alice, bob] = [await enter(gateway, 'alice'), await enter(gateway, 'bob')];
    const browser = await enterAsBrowser(gateway, 'browser');
    for (const pid of gateway.mediaWorkerPids()) stop(pid);
    const playing = play(alice, tone);
    const late = await connect(gateway, { peer: 'late', room: '__lobby__' });
    late.send({ type: 'join', room: 'a', media: 'webrtc' });
    await browser.next('media_restarted');
    await playing;
    await untilHeard('every frame is heard', () => bob.frames.length === tone.length);
    expect((await late.next('joined')).webrtc).toBeDefined();
    return [alice, bob, browser, late];
  });
  for (const client of clients) {
    expect(client.messages.map(({ type }) => type)).not.toContain('error');
  }
});

test('a room that opens while no media worker runs is refused for a while', async () => {
  const timings = { ...MEDIA_SETTINGS.timings, longestWaitMs: 50 };
  const settings = { ...MEDIA_SETTINGS, timings, mediaWorkers: 1, rtcPort: freeRtcPort() };
  const pool = await MediaWorkerPool.open(settings, silentLog);
  cleanUps.push(() => pool.close());
  // None is started in its place.
  pool.expectExit();
  process.kill(firstPidOf(pool), 'SIGKILL');
  await eventually('none runs', () => pool.pids.length === 0);
  const refusal = { code: 'overloaded', retryAfterMs: 50 };
  await expect(pool.openRouter(() => {})).rejects.toMatchObject(refusal);
});

describe('a media worker that keeps dying', () => {
  test('is retried ever more seldom, while the other one takes rooms', async () => {
    const pool = await openPool();
    const waitsMs: number[] = [];
    const missed: unknown[] = [];
    const [, other] = pidsOf(pool);
    for (let death = 0; death < 5; death += 1) {
      const killed = firstPidOf(pool);
      process.kill(killed, 'SIGKILL');
      const diedAtMs = performance.now();
      let slot: unknown;
      await eventually('it is missed', () => {
        [slot] = pool.describe();
        return !pool.pids.includes(killed);
      });
      missed.push(slot);
      (await pool.openRouter(() => {})).close();
      await eventually('it is there again', () => pool.pids.length === 2);
      waitsMs.push(performance.now() - diedAtMs);
    }
    // The first one is replaced at once.
    for (const slot of missed.slice(1)) {
      expect(slot).toMatchObject({ state: 'replacing', pid: undefined });
    }
    for (const [index, atLeastMs] of [0, 200, 400, 800, 1600].entries()) {
      expect(waitsMs[index]).toBeGreaterThan(atLeastMs);
    }
    expect(pool.describe()).toMatchObject([{ restarts: 5 }, { restarts: 0, pid: other }]);
  });

  test('a room that is requested while no media worker runs opens on the first one that is restarted', async () => {
    const pool = await openPool(1);
    const killed = firstPidOf(pool);
    process.kill(killed, 'SIGKILL');
    await eventually('it is missed', () => !pool.pids.includes(killed));
    const room = await pool.openRouter(() => {});
    expect(pool.describe()).toMatchObject([{ state: 'running', routers: 1 }]);
    room.close();
  });
});

test('a browser whose media worker dies before it is in the room is told when it is, once', async () => {
  const pool = await openPool(1);
  const replaced = Promise.withResolvers<void>();
  const media = await RoomMedia.open(pool, silentLog, {
    onLost: () => {},
    onReplaced: () => replaced.resolve(),
  });
  cleanUps.push(() => media.close());
  const producers = { announceTo: () => {} };
  const room = { media, producers, enter: () => {}, leave: () => {}, tellSpeakersTo: () => {} };
  const lease = { room: room as unknown as Room, release: () => {} };
  const told: string[] = [];
  const connection = {
    name: 'browser',
    log: silentLog,
    notify: ({ type }: ServerMessage) => void told.push(type),
  };
  const peer = await WebRtcPeer.open(lease, connection as ClientConnection, undefined, false);
  process.kill(firstPidOf(pool), 'SIGKILL');
  await replaced.promise;
  expect(told).toEqual([]);
  peer.enter();
  peer.listen();
  expect(told).toEqual(['media_restarted']);
  peer.mediaRestarted();
  expect(told).toHaveLength(1);
  peer.close('left');
});

test('rooms of the only media worker wait for the one in its place, and are not refused before', async () => {
  const pool = await openPool(1);
  const warn = vi.spyOn(silentLog, 'warn');
  onTestFinished(() => warn.mockRestore());
  const replaced: unknown[] = [];
  const events = { onLost: () => {}, onReplaced: (router: RoomRouter) => replaced.push(router) };
  for (let rooms = 0; rooms < 3; rooms += 1) {
    const media = await RoomMedia.open(pool, silentLog, events);
    cleanUps.push(() => media.close());
  }
  process.kill(firstPidOf(pool), 'SIGKILL');
  await eventually('each has another router', () => replaced.length === 3);
  const said = warn.mock.calls.map(([fields, words]) => words ?? fields);
  expect(said).toEqual(Array(3).fill('media worker of the room died'));
});

/** RTP parameters that mediasoup takes from a browser: Opus and the audio level. */
const rtpParameters = (ssrc: number) => ({
  mid: '0',
  codecs: [{ mimeType: 'audio/opus', payloadType: 111, clockRate: 48000, channels: 2 }],
  headerExtensions: [{ uri: 'urn:ietf:params:rtp-hdrext:ssrc-audio-level', id: 1 }],
  encodings: [{ ssrc }],
  rtcp: { cname: 'test' },
});

/** In the room as a browser is, but for its media. */
async function enterAsBrowser(gateway: TestGateway, peer: string): Promise<TestClient> {
  const client = await connect(gateway, { peer, room: '__lobby__' });
  await client.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  return client;
}

/** Has a browser speak; resolves with the id of its producer, as the others are told it. */
async function produce(client: TestClient, ssrc: number): Promise<string> {
  const { webrtc } = await client.next('joined');
  const { producer_id: id } = await client.ask(
    {
      type: 'produce',
      transport_id: webrtc?.send_transport.id,
      kind: 'audio',
      rtp_parameters: rtpParameters(ssrc),
    },
    'produced',
  );
  return id;
}

const heardBy = ({ messages }: TestClient) =>
  messages.flatMap((message) => (message.type === 'new_consumer' ? message.producer_id : []));

describe('a room whose consumers outgrow one media worker', () => {
  test('spreads over two: everybody hears everybody; draws back when they leave; nothing is left', async () => {
    const gateway = await openGateway({ ROUTER_MAX_CONSUMERS: '4' });
    const browsers: TestClient[] = [];
    const producers: string[] = [];
    for (const [index, name] of ['ada', 'ben', 'cleo', 'dan'].entries()) {
      const browser = await enterAsBrowser(gateway, name);
      browsers.push(browser);
      producers.push(await produce(browser, 1000 + index));
    }
    expect(await gateway.countRouters()).toBe(2);
    await eventually('everybody hears everybody', () =>
      browsers.every((browser, self) => {
        const others = producers.filter((_, index) => index !== self);
        return heardBy(browser).toSorted().join() === others.toSorted().join();
      }),
    );
    await browsers[3]?.close();
    await browsers[2]?.close();
    await eventually('it draws back', async () => (await gateway.countRouters()) === 1);
    const gone = (browser: TestClient) =>
      browser.messages.filter(({ type }) => type === 'consumer_closed').length;
    await eventually('who left is heard no more', () =>
      browsers.slice(0, 2).every((browser) => gone(browser) === 2),
    );
    const again = await enterAsBrowser(gateway, 'cleo');
    await eventually('who comes back hears', () => heardBy(again).length === 2);
    expect(await gateway.countRouters()).toBe(2);
    await Promise.all([...browsers.slice(0, 2), again].map((client) => client.close()));
    await eventually('nothing is left', async () => (await gateway.countRouters()) === 0);
  });

  test('stays on the first when the second hangs: who comes is let in there, and everybody hears everybody', async () => {
    const gateway = await openGateway({ ROUTER_MAX_CONSUMERS: '1' });
    const ada = await enterAsBrowser(gateway, 'ada');
    const ofAda = await produce(ada, 1000);
    const [, second] = gateway.mediaWorkerPids();
    stop(second!);
    const ben = await enterAsBrowser(gateway, 'ben');
    const ofBen = await produce(ben, 1001);
    await eventually('each hears the other', () => {
      return heardBy(ada).join() === ofBen && heardBy(ben).join() === ofAda;
    });
    expect(await gateway.countRouters()).toBe(1);
    for (const { messages } of [ada, ben]) {
      expect(messages.map(({ type }) => type)).not.toContain('error');
    }
  });

  test.each(['SIGKILL', 'SIGSTOP'] as const)(
    'is rebuilt as a whole when one of its media workers ends by %s: each browser is told once',
    async (signal) => {
      const gateway = await openGateway({ ROUTER_MAX_CONSUMERS: '1' });
      const alice = await enter(gateway, 'alice');
      const browsers = [];
      for (const [index, name] of ['ada', 'ben'].entries()) {
        const browser = await enterAsBrowser(gateway, name);
        await produce(browser, 1000 + index);
        browsers.push(browser);
      }
      expect(await gateway.countRouters()).toBe(2);
      const [, branch] = gateway.mediaWorkerPids();
      if (branch === undefined) throw new Error('there is no second media worker');
      stopped.push(branch);
      process.kill(branch, signal);
      // Its answer, and what follows it, would wait for the one that hangs.
      const [ada] = browsers;
      ada?.send({ type: 'pause_producer', producer_id: (await ada.next('produced')).producer_id });
      for (const browser of browsers) await browser.next('media_restarted');
      await eventually('one router is left', async () => (await gateway.countRouters()) === 1);
      for (const [index, browser] of browsers.entries()) {
        const { webrtc } = await browser.ask(
          { type: 'join', room: 'a', media: 'webrtc' },
          'joined',
        );
        expect(webrtc).toBeDefined();
        const told = browser.messages.filter(({ type }) => type === 'media_restarted');
        expect(told, `browser ${index}`).toHaveLength(1);
      }
      expect(alice.messages.map(({ type }) => type)).not.toContain('error');
    },
  );
});
