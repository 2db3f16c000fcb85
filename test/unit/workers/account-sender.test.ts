import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { type Timings, timingsWith } from '../../../config/timings.ts';
import { silentLog as log } from '../../support/gateway.ts';
import type { HeadsQuery } from '../../../src/webhooks/webhook-outbox.ts';
import { AccountSender, type SenderParts } from '../../../workers/account-sender.ts';

const LONG_MS = 600_000;

/** A sender, an outbox of rooms with one event each, and an endpoint that answers as it is told. */
async function openSender(
  rooms: string[],
  answer: (room: string, response: ServerResponse) => void,
  timings: Partial<Timings['webhooks']>,
) {
  const waiting = new Set(rooms);
  const requests: string[] = [];
  let looks = 0;
  const store = { refuses: false };
  /** Numbers of rooms that were asked for. */
  const asked: number[] = [];
  const endpoint = createServer((request: IncomingMessage, response) => {
    request.setEncoding('utf8').once('data', (body: string) => {
      const { id: room } = JSON.parse(body) as { id: string };
      requests.push(room);
      answer(room, response);
    });
  });
  endpoint.listen(0, '127.0.0.1');
  await once(endpoint, 'listening');
  const url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/`;
  const outbox = {
    heads: async (_accountId: number, _beforeMs: number, query: HeadsQuery) => {
      const { names, skipped, rooms: maxRooms } = query;
      looks += 1;
      asked.push(names.length + maxRooms);
      await sleep(0);
      const headOf = (room: string) => ({ room, event: JSON.stringify({ id: room }) });
      const named = names.filter((room) => waiting.has(room)).map(headOf);
      const heads = [...waiting].slice(skipped, skipped + maxRooms).map(headOf);
      return { givenUp: 0, named, heads };
    },
    remove: (_accountId: number, { room }: { room: string }) =>
      store.refuses ? Promise.reject(new Error('refused')) : Promise.resolve(waiting.delete(room)),
  };
  const parts = {
    outbox,
    accounts: { findWebhook: () => Promise.resolve({ url, secret: 'whsec_AAAA' }) },
    clock: { wallMs: Date.now },
    log,
    timings: timingsWith({ webhooks: { requestTimeoutMs: LONG_MS, ...timings } }).webhooks,
    keepMs: LONG_MS,
    maxRequests: () => 20,
    release: () => Promise.resolve(),
    onFault: () => {},
  };
  const sender = new AccountSender(1, parts as unknown as SenderParts);
  onTestFinished(() => {
    sender.close();
    endpoint.closeAllConnections();
    endpoint.close();
  });
  const countLooks = async (during: () => Promise<unknown>) => {
    const before = looks;
    await during();
    return looks - before;
  };
  return { requests, waiting, asked, countLooks, sender, store };
}

/** Waits until the store is asked nothing for a time in which a timer that is due at once would have run tens of times. */
const untilQuiet = async (countLooks: (during: () => Promise<void>) => Promise<number>) => {
  const aWhile = async () => {
    for (let turn = 0; turn < 100; turn += 1) await sleep(1);
  };
  await expect.poll(() => countLooks(aWhile)).toBe(0);
};

test.each([
  { what: 'a retry', rooms: 1 },
  { what: 'the retry of an endpoint that is down', rooms: 10 },
])('$what in flight asks the store nothing', async ({ rooms }) => {
  const names = Array.from({ length: rooms }, (_, index) => `room ${index}`);
  const { requests, countLooks } = await openSender(
    names,
    (_room, response) => {
      if (requests.length <= rooms) response.writeHead(500).end();
    },
    { firstRetryMs: 50, longestRetryMs: 50 },
  );
  await expect.poll(() => requests.length).toBeGreaterThan(rooms);
  await untilQuiet(countLooks);
});

test('a refused event that was given up is not waited for', async () => {
  const { requests, waiting, countLooks, sender } = await openSender(
    ['refused', 'slow'],
    (room, response) => {
      if (room === 'refused') response.writeHead(400).end();
    },
    { firstRetryMs: 50, longestRetryMs: 50 },
  );
  await expect.poll(() => requests.filter((room) => room === 'refused').length).toBeGreaterThan(0);
  waiting.delete('refused');
  sender.poke();
  await untilQuiet(countLooks);
});

test('rooms that had no turn while an endpoint was down are sent when it is tried again', async () => {
  const names = Array.from({ length: 30 }, (_, index) => `room ${index}`);
  let isUp = false;
  const { waiting, requests } = await openSender(
    names,
    (_room, response) => response.writeHead(isUp ? 204 : 500).end(),
    { firstRetryMs: 20, longestRetryMs: 50 },
  );
  await expect.poll(() => requests.length).toBeGreaterThan(25);
  isUp = true;
  await expect.poll(() => waiting.size).toBe(0);
});

test('rooms behind many that fail are sent, and neither is asked for all at once', async () => {
  const names = Array.from({ length: 1200 }, (_, index) => `room ${index}`);
  // Never five failures in a row: the endpoint is not down.
  const isBad = (room: string) => Number(room.slice(5)) % 2 === 0 && Number(room.slice(5)) < 1000;
  const { waiting, requests, asked, countLooks } = await openSender(
    names,
    (room, response) => response.writeHead(isBad(room) ? 500 : 204).end(),
    { firstRetryMs: LONG_MS, longestRetryMs: LONG_MS },
  );
  await expect.poll(() => waiting.size).toBe(500);
  expect([...waiting].every(isBad)).toBe(true);
  expect(Math.max(...asked)).toBeLessThanOrEqual(220);
  const total = asked.reduce((sum, rooms) => sum + rooms, 0);
  expect(total / requests.length).toBeLessThan(250);
  await untilQuiet(countLooks);
});

test.each([
  { refused: 2, retries: { firstRetryMs: 20, longestRetryMs: 50 } },
  // More than are asked for at once.
  { refused: 250, retries: { firstRetryMs: 1, longestRetryMs: 1 } },
])('$refused rooms whose events are refused for good do not stop another room', async (each) => {
  const bad = Array.from({ length: each.refused }, (_, index) => `bad ${index}`);
  const { waiting, requests, sender } = await openSender(
    bad,
    (room, response) => response.writeHead(room === 'good' ? 204 : 500).end(),
    each.retries,
  );
  // Each has failed, and some often enough that the endpoint counts as down.
  const hasFailed = () => requests.length > 10 && new Set(requests).size === bad.length;
  await expect.poll(hasFailed).toBe(true);
  waiting.add('good');
  sender.poke();
  await expect.poll(() => waiting.has('good')).toBe(false);
});

test('rooms whose events are refused for good do not take all slots again after each success', async () => {
  const bad = Array.from({ length: 25 }, (_, index) => `bad ${index}`);
  const good = Array.from({ length: 40 }, (_, index) => `good ${index}`);
  const { waiting, requests } = await openSender(
    [...bad, ...good],
    (room, response) => response.writeHead(room.startsWith('good') ? 204 : 500).end(),
    { firstRetryMs: 5, longestRetryMs: 60 },
  );
  const isGoodWaiting = () => good.some((room) => waiting.has(room));
  await expect.poll(isGoodWaiting).toBe(false);
  // There would be a thousand if the refused rooms went first after each success.
  expect(requests.filter((room) => room.startsWith('bad')).length).toBeLessThan(250);
});

test('failures of rooms whose events were given up are forgotten, also after a success', async () => {
  const bad = Array.from({ length: 150 }, (_, index) => `bad ${index}`);
  const { waiting, requests, asked, sender } = await openSender(
    bad,
    (room, response) => response.writeHead(room === 'good' ? 204 : 500).end(),
    { firstRetryMs: 1, longestRetryMs: 1 },
  );
  await expect.poll(() => new Set(requests).size).toBe(bad.length);
  waiting.add('good');
  sender.poke();
  await expect.poll(() => waiting.has('good')).toBe(false);
  for (const room of bad.slice(1)) waiting.delete(room);
  // The room that is left, and one for the slot of an endpoint that is down.
  await expect.poll(() => Math.max(...asked.slice(-9))).toBe(2);
});

test('requests that all hang ask the store nothing, however many rooms have failed', async () => {
  const names = Array.from({ length: 500 }, (_, index) => `room ${index}`);
  const seen = new Set<string>();
  let hanging = 0;
  // Never five failures in a row: the endpoint is not down.
  const { countLooks } = await openSender(
    names,
    (room, response) => {
      if (seen.has(room)) hanging += 1;
      else response.writeHead(Number(room.slice(5)) % 2 === 0 ? 204 : 500).end();
      seen.add(room);
    },
    { firstRetryMs: 1500, longestRetryMs: 1500, pagesEveryMs: 300 },
  );
  await expect.poll(() => hanging).toBe(20);
  // The first page may be read again after this time.
  await sleep(300);
  await untilQuiet(countLooks);
});

test('events of hundreds of rooms that were accepted while the store refused to remove them are sent once', async () => {
  const names = Array.from({ length: 500 }, (_, index) => `room ${index}`);
  const { waiting, requests, asked, store, countLooks } = await openSender(
    names,
    (_room, response) => response.writeHead(204).end(),
    { firstRetryMs: 1, longestRetryMs: 1, retryAfterMs: 50, pagesEveryMs: 50 },
  );
  store.refuses = true;
  await expect.poll(() => new Set(requests).size).toBe(names.length);
  await expect.poll(() => countLooks(() => sleep(200))).toBeGreaterThan(0);
  store.refuses = false;
  await expect.poll(() => waiting.size).toBe(0);
  expect(requests).toHaveLength(names.length);
  expect(Math.max(...asked)).toBeLessThanOrEqual(220);
});
