import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import type { ServerMessage } from '../../../src/protocol/messages.ts';
import type { WebRtcPeer } from '../../../src/rooms/webrtc-peer.ts';
import type { ClientAudio } from '../../../src/session/client-audio.ts';
import { accountRate, connectionRate, MessageBudget } from '../../../src/session/message-budget.ts';
import type { Presence } from '../../../src/session/presence.ts';
import { RequestLimits } from '../../../src/session/request-limits.ts';
import { Requests } from '../../../src/session/requests.ts';
import { FairScheduler } from '../../../src/session/turns.ts';
import { TokenBucket } from '../../../src/token-bucket.ts';

/** Longer than a slice of `FairScheduler`. */
const LONG_MS = 6;
/** A request of nearly 64 KiB. */
const LONG_TEXT = JSON.stringify({ type: 'leave', id: 'x', padding: 'y'.repeat(60_000) });

function busyFor(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

const openLimits = () => new RequestLimits(1000, DEFAULT_TIMINGS.budgets);

/** Turns that come when the test says so. */
class ManualScheduler extends FairScheduler {
  readonly #waiting: (() => void)[] = [];

  override take(_accountId: number, start: () => void): void {
    this.#waiting.push(start);
  }

  /** Number of pieces of work that had their turn. */
  async next(): Promise<number> {
    const starts = this.#waiting.splice(0);
    for (const start of starts) start();
    await turn();
    return starts.length;
  }
}

/**
 * Requests of one connection of an account, which is in a room that it can only leave.
 * @param onLeave called for each request to leave
 * @param told is sent to the client
 * @param browser is the client in its room; by default it is there over its WebSocket
 */
function connect(
  limits: RequestLimits,
  accountId: number,
  onLeave: () => void,
  told: ServerMessage[] = [],
  input = { mark: () => {}, passMark: () => {} },
  browser?: Pick<WebRtcPeer, 'takeOffer' | 'resumeConsumer'>,
): Requests {
  const account = { id: accountId, plan: 'pro' };
  const socket = { isPaused: false, pause: () => {}, resume: () => {} };
  const presence = { isClosed: false, leave: onLeave, browser };
  const configure = ({ audio: format }: { audio?: string }) => {
    if (format === 'vinyl') throw new PartylineError('unsupported_audio', 'No vinyl.');
    return { type: 'configured' };
  };
  const audio = { drainHeld: () => {}, configure, input };
  const parts = { credentials: { account }, requestLimits: limits };
  const client = {
    log: { error: () => {}, debug: () => {} },
    account,
    notify: (message: ServerMessage) => told.push(message),
    fail: (fault: unknown) => {
      throw fault;
    },
  };
  return new Requests(
    socket,
    presence as unknown as Presence,
    audio as unknown as ClientAudio,
    parts as ConstructorParameters<typeof Requests>[3],
    client as unknown as ConstructorParameters<typeof Requests>[4],
  );
}

test('a long text is parsed when its turn comes, a short one at once', () => {
  const requests = connect(openLimits(), 1, () => {});
  expect(requests.holdUnread(LONG_TEXT)).toBe(true);
  expect(requests.holdUnread('{"type":"leave"}')).toBe(false);
  expect(requests.waiting).toBe(1);
});

test('a long text is parsed in one turn and handled in another; what is wrong with it is told when it has been parsed', async () => {
  const turns = new ManualScheduler();
  const limits = Object.assign(openLimits(), { turns });
  let left = 0;
  const told: ServerMessage[] = [];
  const good = connect(limits, 1, () => (left += 1));
  const bad = connect(limits, 2, () => {}, told);
  good.holdUnread(LONG_TEXT);
  bad.holdUnread(LONG_TEXT.slice(0, -1));
  await turn();
  expect([left, told]).toEqual([0, []]);
  expect(await turns.next()).toBe(2);
  expect([left, bad.waiting, told]).toMatchObject([0, 0, [{ type: 'error', code: 'bad_message' }]]);
  expect(await turns.next()).toBe(1);
  expect([left, good.waiting]).toEqual([1, 0]);
});

test('long texts of many connections are handled in turn: accounts one after the other, with turns of the event loop between', async () => {
  const limits = openLimits();
  const handled: number[] = [];
  const crowd = Array.from({ length: 20 }, () =>
    connect(limits, 1, () => {
      handled.push(1);
      busyFor(LONG_MS);
    }),
  );
  const other = connect(limits, 2, () => handled.push(2));
  // The slice of this turn of the event loop is over.
  limits.turns.take(3, () => busyFor(LONG_MS));
  for (const requests of [...crowd, other]) requests.holdUnread(LONG_TEXT);
  await Promise.resolve();
  expect(handled).toEqual([]);
  let turns = 0;
  for (; handled.length < 21; turns += 1) {
    const before = handled.length;
    await turn();
    // Each of the crowd's takes more than a slice.
    expect(handled.length - before).toBeLessThanOrEqual(2);
  }
  expect(turns).toBeGreaterThanOrEqual(20);
  expect(handled.indexOf(2)).toBeLessThanOrEqual(2);
});

test('texts that wait behind 64 others are parsed when their turn comes, however short', async () => {
  const limits = openLimits();
  let handled = 0;
  const requests = connect(limits, 1, () => (handled += 1));
  for (let sent = 0; sent < 64; sent += 1) requests.add({ type: 'leave' }, 16);
  expect(requests.holdUnread('{"type":"leave"}')).toBe(true);
  expect(requests.waiting).toBe(65);
  await expect.poll(() => handled, { interval: 1 }).toBe(65);
});

test('audio is held behind each request that may name a format, mute or leave, until that is applied or refused', async () => {
  const events: string[] = [];
  const told: ServerMessage[] = [];
  const requests = connect(openLimits(), 1, () => events.push('left'), told, {
    mark: () => events.push('marked'),
    passMark: () => events.push('passed'),
  });
  const done = async () => {
    await expect.poll(() => requests.waiting, { interval: 1 }).toBe(0);
  };
  requests.add({ type: 'configure', audio: 'pcmu' }, 40);
  requests.add({ type: 'configure', audio: 'vinyl' }, 40);
  expect(events.splice(0)).toEqual(['marked', 'marked']);
  await done();
  expect(events.splice(0)).toEqual(['passed', 'passed']);
  expect(told.map(({ type }) => type)).toEqual(['configured', 'error']);
  requests.holdUnread(LONG_TEXT);
  requests.holdUnread(LONG_TEXT.slice(0, -1));
  await done();
  expect(events.splice(0)).toEqual(['marked', 'marked', 'left', 'passed', 'passed']);
  for (const mute of [true, false]) requests.add({ type: 'configure', mute }, 40);
  expect(events.splice(0)).toEqual(['marked', 'marked']);
  await done();
  expect(events.splice(0)).toEqual(['passed', 'passed']);
  requests.add({ type: 'leave' }, 16);
  expect(events.splice(0)).toEqual(['marked']);
  await done();
  expect(events.splice(0)).toEqual(['left', 'passed']);
  requests.add({ type: 'configure', volume: { bob: 0 } }, 40);
  await done();
  expect(events).toEqual([]);
});

test('the account is not charged for the first request to resume a consumer, but for each further one and for padding', async () => {
  const account = new TokenBucket(accountRate(5), 0);
  const spent: number[] = [];
  account.spend = (tokens) => spent.push(tokens);
  const limits = openLimits();
  const rate = connectionRate(20);
  limits.openBudget = () =>
    new MessageBudget(rate, new TokenBucket(rate, 0), () => account, DEFAULT_TIMINGS.budgets);
  const offers = new Set(['c1', 'c2', 'c4']);
  const browser = { takeOffer: (id: string) => offers.delete(id), resumeConsumer: async () => {} };
  const requests = connect(limits, 1, () => {}, [], undefined, browser);
  for (const id of ['c1', 'c2', 'c1', 'c3']) {
    requests.add({ type: 'resume_consumer', consumer_id: id }, 0);
  }
  await expect.poll(() => requests.waiting, { interval: 1 }).toBe(0);
  expect(spent.splice(0)).toEqual([0, 0, 0.1, 0.1]);
  requests.add({ type: 'resume_consumer', consumer_id: 'c4' }, 65_536);
  await expect.poll(() => requests.waiting, { interval: 1 }).toBe(0);
  expect(spent).toEqual([expect.closeTo(15.94)]);
});
