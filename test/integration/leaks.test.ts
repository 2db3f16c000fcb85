import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { eventually, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';

/** Counts everything that this process holds open: timers, sockets and the like by kind, and file descriptors. */
function openResources(): Record<string, number> {
  const counts: Record<string, number> = { descriptors: readdirSync('/proc/self/fd').length };
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** Returns the resources that are open when their number does not change any more. */
async function settledResources(): Promise<Record<string, number>> {
  let before = openResources();
  await eventually('what is closing has closed', async () => {
    await sleep(200);
    const now = openResources();
    const isSettled = isDeepStrictEqual(now, before);
    before = now;
    return isSettled;
  });
  return before;
}

/** Number of rounds: one leak in each is more than what may still be closing after the first. */
const ROUNDS = 12;

/** Peers of both kinds come, speak, move, and go: some by leave, some by close, some without a word. */
async function comeAndGo(gateway: TestGateway, tone: Buffer[]): Promise<void> {
  const clients = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      TestClient.connect(gateway.url, {
        room: `room${i % 3}`,
        peer: `peer${i}`,
        api_key: gateway.apiKey,
        audio: i % 4 === 0 ? 'pcm_s16le;rate=16000;channels=1' : 'opus',
        delivery: i % 5 === 0 ? 'forward' : 'mix',
      }),
    ),
  );
  await Promise.all(clients.map((client) => client.next('joined')));
  await Promise.all(clients.slice(1, 4).map((client) => play(client, tone)));
  await clients[5]?.ask({ type: 'join', room: 'another', media: 'webrtc' }, 'joined');
  await clients[6]?.ask({ type: 'join', room: 'another' }, 'joined');
  await clients[7]?.ask({ type: 'leave' }, 'left');
  for (const client of clients.slice(0, 6)) await client.close();
  for (const client of clients.slice(6)) client.vanish();
  await eventually('everybody has gone', async () => {
    const { sessions, rooms } = gateway.counts();
    return sessions + rooms === 0 && (await gateway.countRouters()) === 0;
  });
}

test('peers that come and go leave no timer, socket or file descriptor behind', async () => {
  const gateway = await openTestGateway();
  const tone = await opusTone(1000, 0.5, 200);
  await comeAndGo(gateway, tone);
  const before = await settledResources();
  for (let round = 0; round < ROUNDS; round += 1) await comeAndGo(gateway, tone);
  await eventually('nothing more is open than before', () => {
    const now = openResources();
    return Object.entries(now).every(([kind, count]) => count <= (before[kind] ?? 0));
  });
  expect(gateway.counts()).toEqual({ sessions: 0, rooms: 0 });
  await gateway.close();
});
