import { describe, expect, test } from 'vitest';
import { BurstHabit } from '../../../src/rtp/burst-habit.ts';
import { Pacer } from '../../../src/rtp/pacer.ts';
import { FlowWatch } from '../../../src/bridge/flow-watch.ts';
import { seededRandom } from '../../support/random.ts';

const TICK_MS = 20;

type Packet = {
  number: number;
  durationMs: number;
  isQuiet: boolean;
  gapMs: number;
  isSpare: boolean;
};
type Sent = Packet & { atMs: number };
/** One message: when it comes, how many packets it holds. */
type Message = { atMs: number; packets: number };

/** Plays messages through a pacer and the watch over it, on a clock of 20 ms ticks from the first message on, as an uplink does. */
function playThrough(messages: Message[], { durationMs = 20, untilMs = 0 } = {}) {
  const pacer = new Pacer<Packet>();
  const watch = new FlowWatch(5000);
  const sent: Sent[] = [];
  const flow: { event: string; atMs: number }[] = [];
  let number = 0;
  let nextTickMs = messages[0]!.atMs;
  let receivedMs = 0;
  const act = (atMs: number) => {
    for (let due = pacer.take(atMs); due; due = pacer.take(atMs)) sent.push({ ...due, atMs });
    const event = watch.watch(atMs, pacer.aheadMs(atMs), pacer.excessMs, receivedMs);
    if (event) flow.push({ event, atMs });
  };
  const tickUntil = (atMs: number) => {
    for (; nextTickMs <= atMs; nextTickMs += TICK_MS) act(nextTickMs);
  };
  for (const { atMs, packets } of messages) {
    tickUntil(atMs);
    for (let i = 0; i < packets; i += 1, number += 1) {
      pacer.push({ number, durationMs, isQuiet: false, gapMs: 0, isSpare: false }, atMs);
      receivedMs += durationMs;
      act(atMs);
    }
  }
  tickUntil(Math.max(untilMs, (messages.at(-1)?.atMs ?? 0) + 4000));
  /** Silences of more than a frame: their times and durations. */
  const pauses = sent
    .slice(1)
    .map(({ atMs }, i) => ({ atMs, ms: atMs - sent[i]!.atMs - durationMs }))
    .filter(({ ms }) => ms > 2 * TICK_MS);
  return { pacer, sent, flow, pauses, count: number };
}

const numbersOf = (sent: Sent[]) => sent.map(({ number }) => number);
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Pieces of `pieceMs` from `fromMs` until `toMs`, in messages of `perMessage` packets of 20 ms, each up to `jitterMs` late. */
function pieces(
  pieceMs: number,
  { fromMs = 0, toMs = 12_000, perMessage = 1, jitterMs = 0, spreadMs = 0.1, seed = 1 } = {},
): Message[] {
  const random = seededRandom(seed);
  const messages: Message[] = [];
  for (let startMs = fromMs; startMs < toMs; startMs += pieceMs) {
    const lateMs = random() * jitterMs;
    const count = pieceMs / 20 / perMessage;
    for (let i = 0; i < count; i += 1) {
      messages.push({ atMs: startMs + lateMs + i * spreadMs, packets: perMessage });
    }
  }
  return messages;
}

const evenly = (fromMs: number, toMs: number, everyMs = 20): Message[] =>
  Array.from({ length: Math.round((toMs - fromMs) / everyMs) }, (_, i) => ({
    atMs: fromMs + i * everyMs,
    packets: 1,
  }));

describe('a sender of pieces is heard whole, with one pause at most in the first 3 s, and is not told to wait', () => {
  test.each<[string, Message[]]>([
    ['50 packets every second', pieces(1000)],
    ['25 every 500 ms', pieces(500)],
    ['100 every 2 s', pieces(2000, { toMs: 20_000 })],
    ['a message of a second', pieces(1000, { perMessage: 50 })],
    ['a message of 2 s', pieces(2000, { perMessage: 100, toMs: 20_000 })],
    ['two messages a second', pieces(1000, { perMessage: 25, spreadMs: 5 })],
    ['a second, up to 60 ms late', pieces(1000, { jitterMs: 60 })],
    ['500 ms, up to 60 ms late', pieces(500, { jitterMs: 60 })],
    ['2 s, up to 60 ms late', pieces(2000, { jitterMs: 60, toMs: 20_000 })],
    ['a second, that takes 400 ms to come', pieces(1000, { spreadMs: 8 })],
    ['2 s, that take 1.5 s to come', pieces(2000, { spreadMs: 15, toMs: 20_000 })],
  ])('%s', (_, messages) => {
    const { sent, flow, pauses, pacer, count } = playThrough(messages);
    expect(numbersOf(sent)).toEqual(upTo(count));
    expect(pacer.droppedMs).toBe(0);
    expect(flow).toEqual([]);
    expect(pauses.filter(({ atMs }) => atMs > 3000)).toEqual([]);
    expect(pauses.length).toBeLessThanOrEqual(1);
  });

  test.each(upTo(20))('a second, up to 70 ms late, seed %i', (seed) => {
    const { sent, flow, pauses, count } = playThrough(pieces(1000, { jitterMs: 70, seed }));
    expect(numbersOf(sent)).toEqual(upTo(count));
    expect(flow).toEqual([]);
    expect(pauses.length).toBeLessThanOrEqual(1);
  });

  test.each(upTo(10))(
    'a second, up to 150 ms late for ten minutes, seed %i: hardly anything is dropped',
    (seed) => {
      const { pacer, flow } = playThrough(pieces(1000, { jitterMs: 150, toMs: 600_000, seed }));
      expect(flow).toEqual([]);
      expect(pacer.droppedMs).toBeLessThanOrEqual(100);
    },
  );

  test.each([
    ['1020 ms', 51],
    ['1040 ms', 52],
    ['1060 ms', 53],
  ])(
    'a second in files of %s each, which have padding: not told to wait, and little is dropped',
    (_, packets) => {
      const messages = upTo(60).map((second) => ({ atMs: second * 1000, packets }));
      const { pacer, flow } = playThrough(messages);
      expect(flow).toEqual([]);
      expect(pacer.droppedMs).toBeLessThan(60 * (packets - 50) * 20 + 1);
      expect(pacer.bufferedMs).toBe(0);
    },
  );

  test.each([
    [1500, 0.06],
    [1500, 0.075],
    [2000, 0.04],
    [2000, 0.06],
    [2000, 0.075],
  ])(
    'pieces of %i ms, each a file with padding of a share of %d: neither told to wait nor closed',
    (pieceMs, padding) => {
      const messages = upTo(30).map((piece) => ({
        atMs: piece * pieceMs,
        packets:
          Math.floor(((piece + 1) * pieceMs * (1 + padding)) / 20) -
          Math.floor((piece * pieceMs * (1 + padding)) / 20),
      }));
      expect(playThrough(messages).flow).toEqual([]);
    },
  );

  test.each([
    [500, 300],
    [500, 500],
    [1000, 600],
    [1000, 900],
    [2000, 1500],
    [2000, 1800],
  ])(
    'pieces of %i ms, the first %i ms late: neither told to wait nor closed',
    (pieceMs, lateMs) => {
      const [first, ...rest] = pieces(pieceMs, { perMessage: pieceMs / 20, toMs: 20_000 });
      const { flow } = playThrough([{ ...first!, atMs: first!.atMs + lateMs }, ...rest]);
      expect(flow).toEqual([]);
    },
  );

  test("60 ms packets a second at a time, as MediaRecorder's", () => {
    const messages = upTo(15).map((second) => ({
      atMs: (second + 1) * 1000,
      packets: Math.floor(((second + 1) * 1000) / 60) - Math.floor((second * 1000) / 60),
    }));
    const { sent, flow, pauses, count } = playThrough(messages, { durationMs: 60 });
    expect(numbersOf(sent)).toEqual(upTo(count));
    expect(flow).toEqual([]);
    expect(pauses.length).toBeLessThanOrEqual(1);
  });

  test.each([-1500, 1500])('a clock that is off by %i ppm, for 5 minutes', (ppm) => {
    const messages = pieces(1000, { toMs: 300_000 }).map(({ atMs, packets }) => ({
      atMs: atMs * (1 + ppm / 1e6),
      packets,
    }));
    const { sent, flow, pauses, count } = playThrough(messages);
    expect(numbersOf(sent)).toEqual(upTo(count));
    expect(flow).toEqual([]);
    expect(pauses.length).toBeLessThanOrEqual(1);
  });

  test.each([
    [1000, 0.01],
    [2000, 0.0035],
    [2000, 0.005],
    [2000, 0.01],
  ])(
    'pieces of %i ms of a clock that is slow by a share of %d, for 10 minutes: no pause but the first, and the drift is told',
    (pieceMs, slow) => {
      const messages = pieces(pieceMs, { perMessage: pieceMs / 20, toMs: 600_000 }).map(
        ({ atMs, packets }) => ({ atMs: atMs / (1 - slow), packets }),
      );
      const { sent, flow, pauses, pacer, count } = playThrough(messages);
      expect(numbersOf(sent)).toEqual(upTo(count));
      expect(flow).toEqual([]);
      expect(pauses.filter(({ atMs }) => atMs > 5000)).toEqual([]);
      expect(pauses.length).toBeLessThanOrEqual(1);
      expect(pacer.driftPpm / (-slow * 1e6)).toBeGreaterThan(0.8);
      expect(pacer.driftPpm / (-slow * 1e6)).toBeLessThan(1.2);
    },
  );
});

/**
 * Time from the moment at which audio was spoken to the moment at which it is heard, if each message ends
 * with the newest audio.
 */
const lateMs = (sent: Sent[], number: number, spokenMs: number): number =>
  sent.find((packet) => packet.number === number)!.atMs - spokenMs;

describe('the delay', () => {
  test('grows with late pieces, and shrinks when they end: sound that comes evenly is heard at once again within 10 s', () => {
    const bursts = pieces(1000, { toMs: 10_000, jitterMs: 60 });
    const { sent, pacer } = playThrough([...bursts, ...evenly(10_000, 30_000)]);
    expect(lateMs(sent, 400, 8000)).toBeGreaterThan(20);
    const last = sent.at(-1)!;
    expect(last.atMs - 29_980).toBeLessThanOrEqual(20);
    expect(pacer.droppedMs).toBeLessThanOrEqual(300);
  });

  test.each([1, 2])('does not grow for %i stalls of a second', (stalls) => {
    const messages = [
      ...evenly(0, 4000),
      ...pieces(1000, { fromMs: 5000, toMs: 4500 + stalls * 1000 }),
      ...evenly(5000 + (stalls - 1) * 1000 + 5, 20_000),
    ];
    const { sent } = playThrough(messages);
    expect(sent.at(-1)!.atMs - messages.at(-1)!.atMs).toBeLessThanOrEqual(20);
  });

  test('grows for a sender that has sent evenly when pieces come again and again: the third and all after it are heard whole', () => {
    const before = evenly(0, 4000);
    const { sent, pauses, flow } = playThrough([...before, ...pieces(1000, { fromMs: 5000 })]);
    const numbers = numbersOf(sent).filter((number) => number >= before.length + 100);
    expect(numbers).toEqual(upTo(250).map((i) => before.length + 100 + i));
    expect(pauses.filter(({ atMs }) => atMs > 7500)).toEqual([]);
    expect(flow).toEqual([]);
  });
});

describe('sentences at once after even sound, with pauses', () => {
  test.each<[string, number, number, number]>([
    ['1.9 s', 95, 3000, 0],
    ['1.9 s, in 50 ms', 95, 3000, 0.5],
    ['600 ms', 30, 1500, 0],
    ['a second at four times real time', 50, 3000, 5],
    ['two seconds at twice real time', 100, 3000, 10],
  ])('of %s: from the fourth on, all are heard', (_, packets, everyMs, spreadMs) => {
    const before = evenly(0, 1500);
    const sentences = upTo(10).flatMap((i) =>
      upTo(packets).map((k) => ({ atMs: 3000 + i * everyMs + k * spreadMs, packets: 1 })),
    );
    const { sent, count, flow } = playThrough([...before, ...sentences]);
    const fourth = before.length + 3 * packets;
    expect(numbersOf(sent).filter((number) => number >= fourth)).toEqual(
      upTo(count - fourth).map((i) => fourth + i),
    );
    expect(flow).toEqual([]);
  });
});

describe('a stall, and then all of it at once', () => {
  test.each([1000, 2000, 4000, 8000])('of %i ms: heard live within 4 s, not closed', (stallMs) => {
    const endMs = 3000 + stallMs;
    const messages = [
      ...evenly(0, 3000),
      ...upTo(stallMs / 20).map((i) => ({ atMs: endMs + i * 0.05, packets: 1 })),
      ...evenly(endMs + 20, endMs + 12_000),
    ];
    const { sent, flow } = playThrough(messages);
    const live = sent.filter(({ atMs }) => atMs > endMs + 4000 && atMs < endMs + 12_000);
    const lateness = live.map(({ number, atMs }) => atMs - number * 20);
    expect(Math.max(...lateness)).toBeLessThanOrEqual(100);
    expect(flow.map(({ event }) => event)).not.toContain('exceeded');
  });

  test.each([1000, 3000])(
    'of a sender of pieces, of %i ms: heard live within 4 s, not closed, and no drift of its clock',
    (stallMs) => {
      const messages = [
        ...pieces(1000, { toMs: 6000 }),
        ...upTo(stallMs / 20 + 50).map((i) => ({ atMs: 6000 + stallMs + i * 0.05, packets: 1 })),
        ...pieces(1000, { fromMs: 7000 + stallMs, toMs: 20_000 + stallMs }),
      ];
      const { sent, flow, pacer } = playThrough(messages);
      const live = sent.filter(({ atMs }) => atMs > 10_000 + stallMs && atMs < 20_000 + stallMs);
      const lateness = live.map(({ number, atMs }) => atMs - number * 20);
      expect(Math.max(...lateness)).toBeLessThanOrEqual(300);
      expect(pacer.driftPpm).toBeCloseTo(0, 1);
      expect(flow.map(({ event }) => event)).not.toContain('exceeded');
    },
  );

  test('two short ones in the first second and a half: no pause, and nothing is lost', () => {
    const messages = evenly(0, 6000).map(({ atMs, packets }, i) => {
      const heldUntilMs = atMs < 260 ? 260 : atMs >= 1300 && atMs < 1450 ? 1450 : atMs;
      return { atMs: heldUntilMs + i * 0.01, packets };
    });
    const { sent, pauses, count } = playThrough([{ atMs: -20, packets: 1 }, ...messages]);
    expect(numbersOf(sent)).toEqual(upTo(count));
    expect(pauses.filter(({ ms }) => ms > 300)).toEqual([]);
    expect(sent.every(({ gapMs }) => gapMs < 60)).toBe(true);
  });

  test('of the first that is sent: heard live within 4 s', () => {
    const messages = [
      ...upTo(75).map((i) => ({ atMs: i * 0.05, packets: 1 })),
      ...evenly(20, 10_000),
    ];
    const { sent, flow } = playThrough(messages);
    expect(flow).toEqual([]);
    const live = sent.filter(({ atMs }) => atMs > 4000 && atMs < 9900);
    const lateness = live.map(({ number, atMs }) => atMs - (number - 75) * 20);
    expect(Math.max(...lateness)).toBeLessThanOrEqual(120);
  });
});

describe('a sender in real time behind stalls, again and again, is not closed', () => {
  /** Holds messages in the last 27 s until the end of the stall that they are in. */
  const behindStalls = (messages: Message[], seed: number): Message[] => {
    const random = seededRandom(seed);
    const lastMs = messages.at(-1)!.atMs;
    const stalls: { fromMs: number; toMs: number }[] = [];
    for (let fromMs = lastMs - 27_000; fromMs < lastMs;) {
      const toMs = fromMs + 300 + random() * 1200;
      stalls.push({ fromMs, toMs });
      fromMs = toMs + 50 + random() * 1000;
    }
    return messages.map(({ atMs, packets }, i) => {
      const stall = stalls.find(({ fromMs, toMs }) => atMs >= fromMs && atMs < toMs);
      return { atMs: (stall?.toMs ?? atMs) + i * 1e-3, packets };
    });
  };

  describe.each<[string, Message[], number]>([
    ['packets of 20 ms', evenly(0, 30_000), 20],
    ['packets of 120 ms', evenly(0, 30_000, 120), 120],
    ['pieces of 500 ms', pieces(500, { toMs: 30_000 }), 20],
    ['pieces of a second', pieces(1000, { toMs: 30_000, perMessage: 50 }), 20],
    [
      'pieces of a second, of a clock that is fast by 1500 ppm',
      pieces(998.5, { toMs: 180_000 }),
      20,
    ],
  ])('%s', (_, messages, durationMs) => {
    test.each(upTo(6))('seed %i', (seed) => {
      const stalled = behindStalls(messages, seed);
      const { flow } = playThrough(stalled, { durationMs });
      expect(flow.map(({ event }) => event)).not.toContain('exceeded');
    });
  });
});

describe('a sender that is ahead without end', () => {
  test.each<[string, Message[], number]>([
    ['twice real time', evenly(0, 20_000, 10), 6000],
    ['one and a half times', evenly(0, 20_000, 20 / 1.5), 10_000],
    [
      'twice real time, a second at a time',
      pieces(1000, { toMs: 20_000 }).map(({ atMs, packets }) => ({ atMs, packets: packets * 2 })),
      10_000,
    ],
    [
      'twice real time, in messages of a second',
      pieces(1000, { perMessage: 50, toMs: 20_000 }).map(({ atMs }) => ({ atMs, packets: 100 })),
      10_000,
    ],
    ['ten times real time', evenly(0, 20_000, 2), 6000],
  ])('%s: told to wait, and exceeded', (_, messages, withinMs) => {
    const { flow } = playThrough(messages);
    expect(flow[0]).toMatchObject({ event: 'xoff' });
    const exceeded = flow.find(({ event }) => event === 'exceeded');
    expect(exceeded?.atMs).toBeGreaterThan(4900);
    expect(exceeded?.atMs).toBeLessThan(withinMs);
  });

  test('twice real time after a pause: as soon, but for the length of a stall that the pause may have been', () => {
    const after = evenly(20_000, 40_000, 10);
    const { flow } = playThrough([...evenly(0, 4000), ...after]);
    expect(flow[0]).toMatchObject({ event: 'xoff' });
    const exceeded = flow.find(({ event }) => event === 'exceeded');
    expect(exceeded?.atMs).toBeGreaterThan(24_900);
    expect(exceeded?.atMs).toBeLessThan(30_000);
  });

  test('five per cent faster: neither', () => {
    expect(playThrough(evenly(0, 60_000, 19)).flow).toEqual([]);
  });

  test('four seconds at once, and then nothing: told to wait and to go on', () => {
    const messages = upTo(200).map((i) => ({ atMs: i * 0.05, packets: 1 }));
    expect(playThrough(messages, { untilMs: 9000 }).flow.map(({ event }) => event)).toEqual([
      'xoff',
      'xon',
    ]);
  });
});

describe('BurstHabit', () => {
  const habitOf = (messages: Message[]) => {
    const habit = new BurstHabit();
    for (const { atMs, packets } of messages) {
      habit.arrive(atMs);
      for (let i = 0; i < packets; i += 1) habit.add(20);
    }
    return habit.habit;
  };

  test.each<[string, Message[], string]>([
    ['nothing', [], 'new'],
    ['even sound', evenly(0, 2000), 'even'],
    ['two pieces and the start of a third', pieces(1000, { toMs: 2001 }), 'bursty'],
    ['twice real time', evenly(0, 8000, 10), 'new'],
    ['a stall at first', [...pieces(1500, { toMs: 1500 }), ...evenly(20, 3000)], 'even'],
    ['messages of 200 ms', pieces(200, { perMessage: 10, toMs: 3000 }), 'even'],
    ['even sound after pieces', [...pieces(1000, { toMs: 4000 }), ...evenly(4000, 8000)], 'even'],
    [
      'a pause after pieces',
      [...pieces(1000, { toMs: 4000 }), ...pieces(1000, { fromMs: 60_000, toMs: 61_000 })],
      'bursty',
    ],
  ])('of %s', (_, messages, expected) => {
    expect(habitOf(messages)).toBe(expected);
  });
});
