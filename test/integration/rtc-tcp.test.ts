import { expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { readSettings } from '../../config/settings.ts';
import { counters } from '../../src/counters.ts';
import { MediaWorkerPool } from '../../src/media/media-worker-pool.ts';
import type { RoomRouter } from '../../src/media/room-router.ts';
import { TransportGuard } from '../../src/media/transport-guard.ts';
import { WORKER_MEMORY, type WorkerMemoryLimits } from '../../src/media/worker-memory.ts';
import { eventually, freeRtcPort, silentLog } from '../support/gateway.ts';
import { StunFlood } from '../support/stun-flood.ts';
import { useStack } from '../support/use-stack.ts';

/** Clients of WebRTC over TCP that do not read, and the memory of the media worker, which keeps what they do not read. */

/** Requests whose answers are more than the kernel's queue may hold, but no flood: 4.1 Mbit in a second. */
const UNREAD_REQUESTS = 8000;

const { cleanUps, enter, openGateway } = useStack();

async function openRoom(
  memory: Partial<WorkerMemoryLimits>,
  timings: Partial<typeof DEFAULT_TIMINGS.mediaWorkers> = {},
) {
  const rtcPort = freeRtcPort();
  const pool = await MediaWorkerPool.open(
    {
      mediaWorkers: 1,
      workerBin: readSettings({}).MEDIASOUP_WORKER_BIN,
      rtcAddresses: () => [{ ip: '127.0.0.1', takesTcp: true, isSet: true }],
      routerMaxConsumers: 100,
      rtcPort,
      timings: { ...DEFAULT_TIMINGS.mediaWorkers, ...timings },
      memory: { ...WORKER_MEMORY, ...memory },
    },
    silentLog,
  );
  cleanUps.push(() => pool.close());
  const room = await pool.openRouter(() => {});
  return { pool, room, rtcPort };
}

/** Opens the leg of a browser, and notes if it is cut off. */
async function join(room: RoomRouter) {
  const events = {
    onCut: vi.fn<() => void>(),
    onPathChanged: () => {},
    onReceiving: () => {},
    onConsumerClosed: () => {},
  };
  return { leg: await room.openWebRtcLeg(events), onCut: events.onCut };
}

async function flood(rtcPort: number, { leg }: Awaited<ReturnType<typeof join>>) {
  const client = await StunFlood.open(rtcPort, leg.recvTransport.iceParameters);
  onTestFinished(() => client.close());
  return client;
}

/** Sends requests without pause until something has happened; a client that is cut off is no longer read. */
async function sendUntil(end: Promise<unknown>, client: StunFlood): Promise<void> {
  const ended = end.then(() => true);
  const sent = async () => {
    await client.send(2000);
    return false;
  };
  while (!(await Promise.race([sent(), ended]))) continue;
}

test('a client over TCP that sends without pause and does not read is cut off, and nobody else', async () => {
  const { pool, room, rtcPort } = await openRoom({ growth: 4 * 1024 * 1024 });
  const [pid] = pool.pids;
  const [mallory, bob] = [await join(room), await join(room)];
  const client = await flood(rtcPort, mallory);
  const cutBefore = counters.transportsCut;
  const cut = new Promise<void>((resolve) => mallory.onCut.mockImplementation(resolve));
  await sendUntil(cut, client);
  expect(counters.transportsCut).toBe(cutBefore + 1);
  expect(bob.onCut).not.toHaveBeenCalled();
  expect(bob.leg.isLost).toBe(false);
  expect(pool.pids).toEqual([pid]);
});

test('one that sends little and does not read is cut off, too, while the memory grows', async () => {
  const timings = { transportsEveryMs: 100, unreadForMs: 500 };
  const { room, rtcPort } = await openRoom({ growth: 0 }, timings);
  const mallory = await join(room);
  const client = await flood(rtcPort, mallory);
  await client.send(UNREAD_REQUESTS);
  await eventually('it is cut off', () => mallory.onCut.mock.calls.length === 1);
});

test('one that reads is not', async () => {
  const timings = { memoryEveryMs: 50, transportsEveryMs: 50, unreadForMs: 100 };
  const { room, rtcPort } = await openRoom({ growth: 0 }, timings);
  const carol = await join(room);
  const client = await flood(rtcPort, carol);
  client.read();
  await client.send(1);
  await eventually('an answer is read', () => client.bytesRead > 0);
  const answerBytes = client.bytesRead;
  await client.send(UNREAD_REQUESTS);
  const readBytes = (UNREAD_REQUESTS + 1) * answerBytes;
  await eventually('all is read', () => client.bytesRead === readBytes);
  const looks = vi.spyOn(TransportGuard.prototype, 'look');
  onTestFinished(() => looks.mockRestore());
  await eventually('the guard has looked for a while', () => looks.mock.calls.length > 10);
  expect(carol.onCut).not.toHaveBeenCalled();
});

test('a media worker that takes too much memory is replaced', async () => {
  const error = vi.spyOn(silentLog, 'error');
  onTestFinished(() => error.mockRestore());
  const { pool } = await openRoom({ base: 1024 * 1024 });
  await eventually('it is replaced', () => (pool.describe()[0]?.restarts ?? 0) > 0);
  const words = 'media worker takes too much memory; killed';
  expect(error.mock.calls).toContainEqual([expect.objectContaining({ routers: 1 }), words]);
});

test('a browser whose transport is cut off is told, and closed', async () => {
  const gateway = await openGateway({ MEDIA_WORKERS: '1' });
  const page = await enter(gateway, 'page');
  const { webrtc } = await page.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
  const { ice_parameters, ice_candidates } = webrtc!.recv_transport;
  const { port } = ice_candidates.find(({ protocol }) => protocol === 'tcp')!;
  const client = await StunFlood.open(port, ice_parameters);
  onTestFinished(() => client.close());
  await sendUntil(page.closed, client);
  expect(await page.next('error')).toMatchObject({ code: 'rate_limited' });
  expect(await page.closed).toBe(4429);
});
