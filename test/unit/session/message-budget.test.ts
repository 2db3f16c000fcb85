import { describe, expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { AccountBudgets } from '../../../src/accounts/account-budgets.ts';
import { parseClientMessage } from '../../../src/protocol/client-messages.ts';
import {
  accountRate,
  connectionRate,
  costOf,
  MessageBudget,
  prepaidCostOf,
} from '../../../src/session/message-budget.ts';
import { FairScheduler } from '../../../src/session/turns.ts';
import { TokenBucket } from '../../../src/token-bucket.ts';

describe('TokenBucket', () => {
  const rate = { perSecond: 10, burst: 50 };

  test('is full at first, gives what it has, and refills at its rate', () => {
    const bucket = new TokenBucket(rate, 1000);
    expect(bucket.isFull(1000)).toBe(true);
    expect(bucket.waitMs(50, 1000)).toBe(0);
    bucket.spend(50, 1000);
    expect(bucket.waitMs(1, 1000)).toBe(100);
    expect(bucket.waitMs(1, 1099)).toBeCloseTo(1);
    expect(bucket.waitMs(1, 1100)).toBe(0);
    expect(bucket.balance(1_000_000)).toBe(50);
  });

  test('may owe tokens, and asks for no more than a full bucket', () => {
    const bucket = new TokenBucket(rate, 0);
    bucket.spend(70, 0);
    expect(bucket.waitMs(1, 0)).toBe(2100);
    expect(bucket.waitMs(1000, 0)).toBe(7000);
  });

  test('take() spends what there is, and nothing if that is too little', () => {
    const bucket = new TokenBucket({ perSecond: 10, burst: 3 }, 0);
    expect([bucket.take(2, 0), bucket.take(1, 0)]).toEqual([1, 0]);
    expect(bucket.take(1, 50)).toBe(-0.5);
    expect(bucket.balance(50)).toBe(0.5);
    expect(bucket.take(1, 100)).toBe(0);
    expect(bucket.balance(10_000)).toBe(3);
  });

  test('gains nothing from a clock that stands still or goes back', () => {
    const bucket = new TokenBucket(rate, 1000);
    bucket.spend(50, 1000);
    expect(bucket.balance(500)).toBe(0);
  });
});

const join = parseClientMessage('{"type":"join","room":"a"}');
const leave = parseClientMessage('{"type":"leave"}');
const cost = (message: object) => {
  const text = JSON.stringify(message);
  return costOf(parseClientMessage(text), text.length);
};

/** Messages that `partyline-client` in Chrome sends after its join to a room with 250 speakers or more. */
const UUID = '0f8fad5b-d9cb-469f-a165-70867728950e';
const CONNECT = {
  type: 'connect_transport',
  transport_id: UUID,
  dtls_parameters: {
    role: 'server',
    fingerprints: [{ algorithm: 'sha-256', value: Array(32).fill('4A').join(':') }],
  },
  id: '2',
};
const PRODUCE = {
  type: 'produce',
  transport_id: UUID,
  kind: 'audio',
  rtp_parameters: {
    mid: '0',
    codecs: [
      {
        mimeType: 'audio/opus',
        payloadType: 111,
        clockRate: 48_000,
        channels: 2,
        parameters: { minptime: 10, useinbandfec: 1, usedtx: 1, stereo: 0 },
        rtcpFeedback: [
          { type: 'transport-cc', parameter: '' },
          { type: 'nack', parameter: '' },
        ],
      },
    ],
    headerExtensions: [
      ['urn:ietf:params:rtp-hdrext:sdes:mid', 4],
      ['http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time', 2],
      ['http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01', 3],
      ['urn:ietf:params:rtp-hdrext:ssrc-audio-level', 1],
    ].map(([uri, id]) => ({ uri, id, encrypt: false, parameters: {} })),
    encodings: [{ ssrc: 3_735_928_559, dtx: true }],
    rtcp: { cname: 'k1Cg8nJq2x0F7bZs', reducedSize: true },
    msid: `${UUID} ${UUID}`,
  },
  id: '3',
};
const RESUMES = Array.from({ length: 250 }, (_, index) => {
  return { type: 'resume_consumer', consumer_id: UUID, id: `${index + 4}` };
});

describe('costOf()', () => {
  test('is higher for what makes the gateway open something', () => {
    expect(cost({ type: 'configure', volume: { a: 1 } })).toBeLessThan(2);
    expect(cost({ type: 'configure', audio: 'pcmu' })).toBeGreaterThanOrEqual(5);
    expect(cost({ type: 'join', room: 'a' })).toBeGreaterThanOrEqual(5);
    expect(cost(PRODUCE)).toBeGreaterThanOrEqual(5);
    expect(cost({ type: 'restart_ice', transport_id: 't' })).toBeGreaterThanOrEqual(5);
    expect(cost({ type: 'resume_consumer', consumer_id: 'c' })).toBeLessThan(0.2);
  });

  test('rises with the length of a message', () => {
    const volume = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`peer-${i}`, 1]));
    expect(cost({ type: 'configure', volume })).toBeGreaterThan(4);
  });
});

describe('prepaidCostOf()', () => {
  const [resume] = RESUMES;

  test('is all that a resume costs as clients send it', () => {
    const text = JSON.stringify(resume);
    const message = parseClientMessage(text);
    expect(prepaidCostOf(message, text.length)).toBe(costOf(message, text.length));
  });

  test('of one that is padded is no more: the account pays for the rest', () => {
    const text = JSON.stringify({ ...resume, padding: 'x'.repeat(60_000) });
    const message = parseClientMessage(text);
    const prepaid = prepaidCostOf(message, text.length);
    expect(prepaid).toBeLessThan(0.2);
    const account = new TokenBucket(accountRate(5), 0);
    openBudget(account).charge(costOf(message, text.length), 0, 0, prepaid);
    expect(account.balance(0)).toBeLessThan(185 - 14);
  });
});

/** A connection with a budget of 20 a second, alone in its account unless others are given. */
function openBudget(account: TokenBucket = new TokenBucket(accountRate(500), 0)) {
  const rate = connectionRate(20);
  return new MessageBudget(rate, new TokenBucket(rate, 0), () => account, DEFAULT_TIMINGS.budgets);
}

/** Sends messages without pause until the connection is closed; returns what became of each, in virtual time. */
function flood(budget: MessageBudget, tokens: number, forMs: number) {
  let nowMs = 0;
  const seen = { handled: 0, refused: 0, toldAtMs: [] as number[], closedAtMs: -1 };
  while (nowMs < forMs) {
    const { waitMs, outcome, isToBeTold } = budget.charge(tokens, 0, nowMs);
    if (isToBeTold) seen.toldAtMs.push(nowMs);
    if (outcome === 'close') {
      seen.closedAtMs = nowMs;
      break;
    }
    nowMs += waitMs;
    if (outcome === 'handle') seen.handled += 1;
    else seen.refused += 1;
  }
  return seen;
}

describe('MessageBudget', () => {
  test('of a flood: slows down, tells once after 1 s, closes after 5 s', () => {
    const { handled, toldAtMs, closedAtMs } = flood(openBudget(), 1, 60_000);
    expect(handled).toBeGreaterThanOrEqual(200);
    expect(handled).toBeLessThanOrEqual(201);
    expect(toldAtMs).toHaveLength(1);
    expect(toldAtMs[0]).toBeGreaterThanOrEqual(1000);
    expect(toldAtMs[0]).toBeLessThan(1100);
    expect(closedAtMs).toBeGreaterThanOrEqual(5000);
    expect(closedAtMs).toBeLessThan(5100);
  });

  test('lets fewer through of what costs more', () => {
    expect(flood(openBudget(), 5, 60_000).handled).toBeLessThanOrEqual(41);
  });

  test('is never met by a client that joins, leaves and talks', () => {
    const budget = openBudget();
    for (let nowMs = 0; nowMs < 3_600_000; nowMs += 1000) {
      const message = (nowMs / 1000) % 2 === 0 ? join : leave;
      const charge = budget.charge(costOf(message, 40), 1000, nowMs);
      expect(charge).toMatchObject({ waitMs: 0, outcome: 'handle', isToBeTold: false });
    }
  });

  test('only slows down a client that joins and leaves as fast as it is answered', () => {
    const account = new TokenBucket(accountRate(5), 0);
    const clients = Array.from({ length: 5 }, () => ({ budget: openBudget(account), atMs: 0 }));
    let cycles = 0;
    for (let first = clients[0]!; first.atMs < 60_000; cycles += 0.5) {
      const message = cycles % 1 === 0 ? join : leave;
      const { waitMs, ...charge } = first.budget.charge(costOf(message, 40), 1, first.atMs);
      expect(charge).toMatchObject({ outcome: 'handle', isToBeTold: false });
      first.atMs += waitMs + 1;
      first = clients.toSorted((one, other) => one.atMs - other.atMs)[0]!;
    }
    // The rate of the account is 22 a second, and its burst 185.
    expect(cycles).toBeLessThan((185 + 60 * 22) / 7 + 10);
  });

  test('is whole again for a client that stops when it is told', () => {
    const budget = openBudget();
    flood(budget, 1, 2000);
    const later = budget.charge(1, 5000, 7000);
    expect(later).toMatchObject({ waitMs: 0, outcome: 'handle' });
    // Four seconds over budget, a pause, and four more: each time is judged by itself.
    for (let nowMs = 7000; nowMs < 11_000; nowMs += 10) budget.charge(1, 0, nowMs);
    expect(budget.charge(1, 1200, 14_000).outcome).toBe('handle');
  });

  test('lets 500 clients of a pro account in at once, browsers too, and again when they all come back', () => {
    const account = new TokenBucket(accountRate(500), 0);
    for (let round = 0; round < 2; round += 1) {
      for (let client = 0; client < 500; client += 1) {
        const budget = openBudget(account);
        const atJoin = budget.charge(costOf(join, 3000), 0, 0);
        expect(atJoin).toMatchObject({ waitMs: 0, outcome: 'handle' });
      }
    }
    const browsers = new TokenBucket(accountRate(500), 0);
    const own = [costOf(join, 8000), ...[CONNECT, CONNECT, PRODUCE].map(cost)];
    const resumes = RESUMES.map(cost);
    const met = [];
    for (let client = 0; client < 500; client += 1) {
      const budget = openBudget(browsers);
      const charges = [
        ...own.map((each) => budget.charge(each, 0, 0)),
        ...resumes.map((each) => budget.charge(each, 0, 0, each)),
      ];
      met.push(...charges.filter(({ waitMs, outcome }) => waitMs > 0 || outcome !== 'handle'));
    }
    expect(met).toEqual([]);
  });

  test('charges what the account has paid for to the connection alone, whatever the others have spent', () => {
    const account = new TokenBucket(accountRate(5), 0);
    account.spend(10_000, 0);
    const budget = openBudget(account);
    for (let sent = 0; sent < 20; sent += 1) {
      expect(budget.charge(5, 0, 0, 5)).toMatchObject({ waitMs: 0, outcome: 'handle' });
    }
    expect(budget.charge(5, 0, 0, 5)).toMatchObject({ waitMs: 250, outcome: 'handle' });
    expect(account.balance(0)).toBe(185 - 10_000);
  });

  test('of a flood is not recovered by messages that are paid for, while the account is exhausted', () => {
    const account = new TokenBucket(accountRate(5), 0);
    account.spend(185, 0);
    const budget = openBudget(account);
    let nowMs = 0;
    const seen: { nowMs: number; isTold: boolean; isClosed: boolean }[] = [];
    while (nowMs < 30_000 && !seen.at(-1)?.isClosed) {
      budget.charge(0.1, 0, nowMs, 0.1);
      const { waitMs, isToBeTold, outcome } = budget.charge(5, 0, nowMs);
      seen.push({ nowMs, isTold: isToBeTold, isClosed: outcome === 'close' });
      nowMs += waitMs;
    }
    expect(seen.filter(({ isTold }) => isTold)).toHaveLength(1);
    expect(seen.at(-1)).toMatchObject({ isClosed: true });
    expect(nowMs).toBeLessThan(5500);
  });

  test('refuses what the account has no budget for, after a second, and takes nothing for it', () => {
    const account = new TokenBucket(accountRate(5), 0);
    account.spend(185 + 220, 0);
    const budget = openBudget(account);
    const charge = budget.charge(5, Infinity, 0);
    expect(charge).toMatchObject({ waitMs: 1000, outcome: 'refuse', isToBeTold: false });
    expect(charge.retryAfterMs).toBeGreaterThan(9000);
    expect(account.balance(0)).toBe(-220);
    // A client that does as it is told is not closed, however long the others go on.
    account.spend(220, 10_000);
    expect(budget.charge(5, 9000, 10_000).outcome).toBe('refuse');
  });

  test('closes one of many connections that all go on over the budget of their account', () => {
    const account = new TokenBucket(accountRate(5), 0);
    account.spend(10_000, 0);
    const { refused, closedAtMs } = flood(openBudget(account), 5, 60_000);
    expect(refused).toBeLessThanOrEqual(5);
    expect(closedAtMs).toBe(5000);
  });
});

test('AccountBudgets forgets accounts whose bucket is full, and starts anew with another plan', () => {
  const budgets = new AccountBudgets(accountRate);
  for (let id = 0; id < 100; id += 1) budgets.of({ id, plan: 'free' }, 0).spend(10, 0);
  expect(budgets.size).toBe(100);
  const free = budgets.of({ id: 7, plan: 'free' }, 60_000);
  expect(budgets.size).toBe(1);
  expect(budgets.of({ id: 7, plan: 'free' }, 60_001)).toBe(free);
  expect(budgets.of({ id: 7, plan: 'pro' }, 60_001)).not.toBe(free);
});

describe('FairScheduler', () => {
  const busyFor = (ms: number) => {
    const untilMs = performance.now() + ms;
    while (performance.now() < untilMs);
  };

  test('lets other work in between slices, and gives each account its turn', async () => {
    const turns = new FairScheduler();
    const order: string[] = [];
    const run = (accountId: number, name: string) =>
      turns.run(accountId, async () => {
        order.push(name);
        busyFor(5);
      });
    const all = [1, 2, 3, 4].map((index) => run(1, `crowd ${index}`));
    all.push(run(2, 'other'));
    setImmediate(() => order.push('loop'));
    await Promise.all(all);
    expect(order.slice(0, 2)).toEqual(['crowd 1', 'crowd 2']);
    expect(order.indexOf('loop')).toBeLessThan(order.indexOf('crowd 3'));
    expect(order.indexOf('other')).toBeLessThan(order.indexOf('crowd 3'));
    expect(order).toHaveLength(6);
  });

  test('many that have waited for one thing go on in turn, with a turn of the event loop in between', async () => {
    const turns = new FairScheduler();
    let loops = 0;
    const count = () => {
      loops += 1;
      counting = setImmediate(count);
    };
    let counting = setImmediate(count);
    const answer = Promise.withResolvers<void>();
    const began = Array.from({ length: 20 }, async (_, index) => {
      await answer.promise;
      return turns.run(1, () => {
        busyFor(5);
        return { index, loops };
      });
    });
    answer.resolve();
    const results = await Promise.all(began);
    clearImmediate(counting);
    expect(results.map(({ index }) => index)).toEqual(Array.from(results.keys()));
    // The first begins at once; a slice that has just begun may be shared by two.
    const perLoop = Map.groupBy(results, (result) => result.loops);
    expect(Math.max(...[...perLoop.values()].map((some) => some.length))).toBeLessThanOrEqual(2);
  });

  test('passes on what is thrown, and goes on with the others', async () => {
    const turns = new FairScheduler();
    const failing = turns.run(1, () => {
      throw new Error('refused');
    });
    await expect(failing).rejects.toThrow('refused');
    expect(await turns.run(1, () => 'done')).toBe('done');
  });

  test('passes a rejection on, and goes on with the others', async () => {
    const turns = new FairScheduler();
    const failing = turns.run(1, () => Promise.reject(new Error('refused')));
    await expect(failing).rejects.toThrow('refused');
    await turns.run(1, () => Promise.resolve());
  });
});
