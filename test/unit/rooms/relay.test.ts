import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  PROBE,
  type RelayedMessage,
  RelayFrameReader,
  writeRelayFrame,
} from '../../../src/cluster/relay/relay-frame.ts';
import { RelayQueue } from '../../../src/cluster/relay/relay-queue.ts';
import { counters } from '../../../src/counters.ts';
import { BoundedFifo } from '../../../src/message-fifo.ts';
import { RelayBudgets } from '../../../src/rooms/relay-budgets.ts';
import { Relay, type RelayListener, takersOf } from '../../../src/rooms/relay.ts';
import { RelayActiveSpeakers } from '../../../src/rooms/relay-active-speakers.ts';
import {
  type Intake,
  type IntakeState,
  intakeOf,
  RelayIntake,
} from '../../../src/session/relay-intake.ts';
import { Slices } from '../../../src/slices.ts';
import { eventually } from '../../support/gateway.ts';

const OPAQUE = { codec: 'opaque' } as const;
const OPUS = { codec: 'opus' } as const;
const PCM = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 } as const;
const OGG = { codec: 'ogg_opus' } as const;

const NOTHING_SAID: IntakeState = {
  outputFormat: undefined,
  inputFormat: undefined,
  isFormatUnknown: false,
  hasSaidNothing: true,
};

describe('intakeOf()', () => {
  test.each<[string, Partial<IntakeState>, 'sound' | 'relayed' | undefined, Intake]>([
    ['has said nothing and been sent nothing', {}, undefined, 'first'],
    ['has said nothing and been sent sound', {}, 'sound', 'sound'],
    ['has said nothing and been sent messages', {}, 'relayed', 'relayed'],
    ['has a default format by its account', { hasSaidNothing: false }, undefined, 'sound'],
    ['sends what nobody can tell yet', { isFormatUnknown: true }, undefined, 'held'],
    ['sends that, and was sent sound', { isFormatUnknown: true }, 'sound', 'held'],
    ['sends that, and was sent messages', { isFormatUnknown: true }, 'relayed', 'held'],
    ['sends an unknown format', { inputFormat: OPAQUE }, undefined, 'relayed'],
    ['sends that, and was sent sound', { inputFormat: OPAQUE }, 'sound', 'relayed'],
    ['sends Opus', { inputFormat: OPUS }, undefined, 'sound'],
    ['sends Opus, and was sent messages', { inputFormat: OPUS }, 'relayed', 'sound'],
    ['sends samples', { inputFormat: PCM, hasSaidNothing: false }, undefined, 'sound'],
    ['sends a container', { inputFormat: OGG }, 'relayed', 'sound'],
    ['wants samples', { outputFormat: PCM, hasSaidNothing: false }, undefined, 'sound'],
    [
      'wants samples, and sends an unknown format',
      { outputFormat: PCM, inputFormat: OPAQUE },
      undefined,
      'sound',
    ],
    [
      'wants samples while nobody knows what it sends',
      { outputFormat: PCM, isFormatUnknown: true },
      undefined,
      'sound',
    ],
    [
      'wants messages, and sends samples',
      { outputFormat: OPAQUE, inputFormat: PCM },
      undefined,
      'relayed',
    ],
  ])('a client that %s', (_what, state, firstHeard, intake) => {
    expect(intakeOf({ ...NOTHING_SAID, ...state }, firstHeard)).toBe(intake);
  });
});

describe('RelayIntake', () => {
  const open = (state: Partial<IntakeState> = {}) => {
    const now = { ...NOTHING_SAID, ...state };
    return { now, intake: new RelayIntake(() => now, undefined) };
  };
  const message = (text: string) => Buffer.from(text);

  test('sends messages where they come first, and goes on doing so', () => {
    const { intake } = open();
    expect(intake.take(message('a'), 0)).toEqual([message('a')]);
    intake.soundSent();
    expect(intake.intake).toBe('relayed');
    expect(intake.take(message('b'), 20)).toEqual([message('b')]);
  });

  test('sends none after sound came first', () => {
    const { intake } = open();
    intake.soundSent();
    expect(intake.take(message('a'), 0)).toEqual([]);
    expect(intake.intake).toBe('sound');
  });

  test('holds messages while nobody knows what the client sends, and sends all once its format is found to be unknown', () => {
    const { now, intake } = open({ isFormatUnknown: true });
    expect(intake.take(message('a'), 0)).toEqual([]);
    expect(intake.take(message('b'), 20)).toEqual([]);
    expect(intake.settle(30)).toEqual([]);
    Object.assign(now, { isFormatUnknown: false, inputFormat: OPAQUE });
    expect(intake.settle(40)).toEqual([message('a'), message('b')]);
    expect(intake.settle(50)).toEqual([]);
    expect(intake.take(message('c'), 60)).toEqual([message('c')]);
  });

  test('goes on keeping sound away from a client that was sent messages, while it is in doubt what it sends', () => {
    const { now, intake } = open();
    intake.take(message('a'), 0);
    now.isFormatUnknown = true;
    expect([intake.intake, intake.isRelayed]).toEqual(['held', true]);
    now.isFormatUnknown = false;
    expect([intake.intake, intake.isRelayed]).toEqual(['relayed', true]);
    const other = open({ isFormatUnknown: true });
    other.intake.soundSent();
    expect([other.intake.intake, other.intake.isRelayed]).toEqual(['held', false]);
  });

  test('sends what it holds once nobody waits any more for what the client sends, also if no more comes', () => {
    const { now, intake } = open({ isFormatUnknown: true });
    intake.take(message('a'), 0);
    expect(intake.settle(1000)).toEqual([]);
    now.isFormatUnknown = false;
    expect(intake.settle(2000)).toEqual([message('a')]);
    expect(intake.firstHeard).toBe('relayed');
  });

  test('holds messages for 5 s at most', () => {
    const { now, intake } = open({ isFormatUnknown: true });
    const before = counters.dropped.not_relayed;
    intake.take(message('a'), 0);
    intake.settle(5001);
    expect(counters.dropped.not_relayed - before).toBe(1);
    now.isFormatUnknown = false;
    expect(intake.settle(5002)).toEqual([]);
    expect(intake.intake).toBe('first');
  });

  test('begins anew in another room', () => {
    const { intake } = open();
    intake.soundSent();
    intake.reset();
    expect(intake.take(message('a'), 0)).toEqual([message('a')]);
  });

  test('forgets what it holds when the format is found to be a known one, and when the client leaves the room', () => {
    const { now, intake } = open({ isFormatUnknown: true });
    intake.take(message('a'), 0);
    Object.assign(now, { isFormatUnknown: false, inputFormat: OPUS });
    expect(intake.settle(40)).toEqual([]);
    Object.assign(now, { isFormatUnknown: true, inputFormat: undefined });
    intake.take(message('b'), 60);
    intake.reset();
    Object.assign(now, { isFormatUnknown: false, inputFormat: OPAQUE });
    expect(intake.settle(80)).toEqual([]);
  });

  test('sends what it holds in order where the client stops sending before anybody knows what it sends', () => {
    const { now, intake } = open({ isFormatUnknown: true });
    intake.take(message('a'), 0);
    now.isFormatUnknown = false;
    expect(intake.take(message('b'), 2000)).toEqual([message('a'), message('b')]);
  });
});

describe('Relay', () => {
  type Heard = RelayListener & { heard: string[] };
  const listener = (peer: string, extra: Partial<RelayListener> = {}): Heard => {
    const heard: string[] = [];
    return {
      peer,
      takesRelayed: true,
      hears: () => true,
      deliver: (message) => heard.push(message.toString()),
      heard,
      ...extra,
    };
  };

  const open = (peers: string[], charge = (_cost: number) => true) => {
    const sent: string[] = [];
    let changes = 0;
    const relay = new Relay({
      slices: new Slices((fault) => {
        throw fault;
      }),
      countNodes: () => 1,
      sendToNodes: (peer, message) => sent.push(`${peer}: ${message.toString()}`),
      charge,
      onActiveSpeakersChanged: () => (changes += 1),
      isInRoom: (peer) => peers.includes(peer),
      holdMs: 500,
    });
    return { relay, sent, changes: () => changes };
  };

  test('takersOf() leaves out the sender, who takes sound, and who has turned the sender to 0', () => {
    const all = [
      listener('alice'),
      listener('bob'),
      listener('carol', { takesRelayed: false }),
      listener('dave', { hears: (peer) => peer !== 'alice' }),
    ];
    expect(takersOf(all, 'alice').map(({ peer }) => peer)).toEqual(['bob']);
    expect(takersOf(all, 'erin').map(({ peer }) => peer)).toEqual(['alice', 'bob', 'dave']);
  });

  test('delivers messages in order, to other nodes too, but not to who has left meanwhile', async () => {
    const { relay, sent } = open(['alice', 'bob', 'carol']);
    const [bob, carol] = [listener('bob'), listener('carol')];
    relay.add(bob);
    relay.add(carol);
    for (let i = 0; i < 50; i += 1) relay.send('alice', Buffer.from(String(i)));
    relay.receive('dave', Buffer.from('of another node'));
    relay.remove(carol);
    const said = Array.from({ length: 50 }, (_, i) => String(i));
    await eventually('all have come', () => bob.heard.length === 51);
    expect(bob.heard).toEqual([...said, 'of another node']);
    expect(carol.heard).toEqual([]);
    expect(sent).toEqual(said.map((text) => `alice: ${text}`));
  });

  test('delivers to hundreds in slices, to each in order', async () => {
    const { relay } = open(['alice']);
    const crowd = Array.from({ length: 300 }, (_, i) => listener(`p${i}`));
    for (const each of crowd) relay.add(each);
    for (let i = 0; i < 10; i += 1) relay.send('alice', Buffer.from(String(i)));
    await eventually('all have come', () => crowd.every(({ heard }) => heard.length === 10));
    expect(new Set(crowd.map(({ heard }) => heard.join('')))).toEqual(new Set(['0123456789']));
  });

  describe('in a large room', () => {
    beforeEach(() => {
      vi.useFakeTimers({ toFake: ['performance'] });
    });
    afterEach(() => {
      vi.useRealTimers();
    });

    /** Listeners that count how often they are asked. */
    const openCrowd = (count: number, charge?: (cost: number) => boolean) => {
      const { relay } = open(['alice'], charge);
      let asked = 0;
      const crowd = Array.from({ length: count }, (_, i) => {
        const each = listener(`p${i}`);
        const counting = Object.defineProperty(each, 'takesRelayed', {
          get: () => {
            asked += 1;
            return true;
          },
        });
        relay.add(counting);
        return counting;
      });
      return { relay, crowd, asked: () => asked };
    };

    test('listeners are asked whether they take messages once in 20 ms, however many come', () => {
      // As in a flood: most cannot be paid for.
      const { relay, asked } = openCrowd(500, (cost) => cost < 100);
      for (let i = 0; i < 1000; i += 1) relay.send(`p${i % 500}`, Buffer.alloc(16_384));
      expect(asked()).toBe(500);
      vi.advanceTimersByTime(20);
      for (let i = 0; i < 1000; i += 1) relay.send(`p${i % 500}`, Buffer.alloc(16_384));
      expect(asked()).toBe(1000);
    });

    test('a message that the account cannot pay for is offered to nobody', () => {
      const { relay, asked } = openCrowd(500, () => false);
      for (let i = 0; i < 100; i += 1) relay.send('p0', Buffer.alloc(16_384));
      expect(asked()).toBe(0);
    });

    test('no sender gets its own messages, nor does one that is deaf to it; one that comes is asked at once, one that goes gets nothing', async () => {
      const { relay, crowd } = openCrowd(100);
      const [first, gone, other] = crowd;
      const deaf = listener('deaf', { hears: (peer) => peer !== 'p0' });
      relay.add(deaf);
      relay.send('p0', Buffer.from('a'));
      const late = listener('late');
      relay.add(late);
      relay.remove(gone!);
      relay.send('p0', Buffer.from('b'));
      relay.send('p2', Buffer.from('c'));
      await vi.waitFor(() => expect(late.heard).toEqual(['b', 'c']), { timeout: 10_000 });
      await vi.waitFor(() => expect(deaf.heard).toEqual(['c']), { timeout: 10_000 });
      expect([first!.heard, gone!.heard, other!.heard]).toEqual([['c'], [], ['a', 'b']]);
      expect(crowd.slice(3).every(({ heard }) => heard.join('') === 'abc')).toBe(true);
    });
  });

  test('large messages are delivered to fewer in a row than small ones', () => {
    const tasks: (() => void | Promise<void>)[] = [];
    const relay = new Relay({
      slices: { add: (_owner: object, task: () => void) => tasks.push(task) } as unknown as Slices,
      countNodes: () => 0,
      sendToNodes: () => {},
      charge: () => true,
      onActiveSpeakersChanged: () => {},
      isInRoom: () => true,
      holdMs: 500,
    });
    const crowd = Array.from({ length: 300 }, (_, i) => listener(`p${i}`));
    for (const each of crowd) relay.add(each);
    const heard = () => crowd.filter((each) => each.heard.length > 0).length;
    relay.send('alice', Buffer.alloc(64 * 1024));
    expect(heard()).toBe(0);
    void tasks.shift()!();
    expect(heard()).toBe(3);
    while (tasks.length > 0) void tasks.shift()!();
    expect(heard()).toBe(300);
    relay.send('alice', Buffer.from('a'));
    expect(tasks.length).toBe(5);
  });

  test('while the event loop does not keep up, drops the oldest, and counts them', async () => {
    const { relay } = open(['alice']);
    const bob = listener('bob');
    relay.add(bob);
    const before = counters.dropped.not_relayed;
    const kept = Math.floor((4 << 20) / (64 * 1024 + 1024));
    const message = (number: number) => Buffer.alloc(64 * 1024, `${number} `);
    for (let i = 0; i < 100; i += 1) relay.receive('alice', message(i));
    expect(counters.dropped.not_relayed - before).toBe(100 - kept);
    await eventually('the others have come', () => bob.heard.length === kept);
    expect(bob.heard.map((text) => parseInt(text, 10))).toEqual(
      Array.from({ length: kept }, (_, i) => 100 - kept + i),
    );
  });

  test('delivers as much as the account can pay for', async () => {
    const costs: number[] = [];
    // Not for the big message.
    const { relay, sent } = open(['alice'], (cost) => costs.push(cost) > 0 && cost < 10);
    const [bob, carol] = [listener('bob'), listener('carol')];
    relay.add(bob);
    relay.add(carol);
    const before = counters.dropped.not_relayed;
    relay.send('alice', Buffer.alloc(64 * 1024));
    relay.send('alice', Buffer.from('b'));
    await eventually('what is paid for has come', () => bob.heard.length > 0);
    expect([bob.heard, carol.heard, sent]).toEqual([['b'], ['b'], ['alice: b']]);
    expect(counters.dropped.not_relayed - before).toBe(2);
    // Each time: to the other node, asking two listeners, delivering to two.
    const [asking, small] = [2 / 25, 1 + 1 / 4096];
    expect(costs).toEqual([17, asking, 34, small, asking, 2 * small]);
  });

  test('tells who sends, if it is in the room', () => {
    const { relay, changes } = open(['alice']);
    relay.send('alice', Buffer.from('a'));
    relay.send('alice', Buffer.from('b'));
    relay.receive('who has left', Buffer.from('c'));
    expect(relay.talking()).toEqual(['alice']);
    expect(changes()).toBe(1);
    relay.forget('alice');
    expect(relay.talking()).toEqual([]);
  });
});

test('RelayBudgets.charge() lets one peer send 50 messages a second to 500, for each account apart', () => {
  const budgets = new RelayBudgets();
  const refused = Array.from({ length: 1000 }, (_, i) => budgets.charge(1, 500 * 1.02, i * 20));
  expect(refused).not.toContain(false);
  expect(budgets.charge(2, 30_000, 0)).toBe(true);
  expect(budgets.charge(2, 1, 0)).toBe(false);
  expect(budgets.charge(3, 1, 0)).toBe(true);
  expect(budgets.charge(2, 30_000, 120_000)).toBe(true);
});

describe('RelayActiveSpeakers', () => {
  test('a peer talks for the hold time after its last message', () => {
    const talkers = new RelayActiveSpeakers(500);
    expect(talkers.heard('alice', 0)).toBe(true);
    expect(talkers.heard('alice', 20)).toBe(false);
    expect(talkers.talking(520)).toEqual(['alice']);
    expect(talkers.talking(521)).toEqual([]);
    expect(talkers.heard('alice', 600)).toBe(true);
  });

  test('pieces of a second are one stream; a pause of minutes is none', () => {
    const talkers = new RelayActiveSpeakers(500);
    talkers.heard('alice', 0);
    talkers.heard('alice', 1000);
    expect(talkers.talking(1999)).toEqual(['alice']);
    expect(talkers.heard('alice', 2000)).toBe(false);
    talkers.heard('alice', 100_000);
    expect(talkers.talking(100_501)).toEqual([]);
  });
});

describe('BoundedFifo', () => {
  const texts = (fifo: BoundedFifo, nowMs: number) => {
    const all: string[] = [];
    for (let next = fifo.shift(nowMs); next; next = fifo.shift(nowMs)) all.push(next.toString());
    return all;
  };

  test('keeps the newest that fit, and counts the others', () => {
    const fifo = new BoundedFifo({ maxBytes: 10 * (64 + 3), maxAgeMs: 1000 });
    for (let i = 100; i < 350; i += 1) fifo.push(Buffer.from(String(i)), 0);
    expect(texts(fifo, 0)).toEqual(Array.from({ length: 10 }, (_, i) => String(340 + i)));
    expect([fifo.takeDropped(), fifo.takeDropped()]).toEqual([240, 0]);
    expect(fifo.isEmpty).toBe(true);
  });

  test('drops what is too old, also as others come', () => {
    const fifo = new BoundedFifo({ maxBytes: 1 << 20, maxAgeMs: 1000 });
    fifo.push(Buffer.from('a'), 0);
    fifo.push(Buffer.from('b'), 500);
    fifo.push(Buffer.from('c'), 1001);
    expect(fifo.takeDropped()).toBe(1);
    expect(fifo.ageMs(1100)).toBe(600);
    expect(texts(fifo, 1501)).toEqual(['c']);
    expect(fifo.takeDropped()).toBe(1);
    expect(fifo.ageMs(2000)).toBe(0);
  });
});

describe('RelayQueue', () => {
  const LIMITS = { maxBytes: 10 * (64 + 1), maxAgeMs: 1000 };
  const drain = (queue: RelayQueue<number>, nowMs = 0) => {
    const all: string[] = [];
    for (let next = queue.take(nowMs); next; next = queue.take(nowMs)) all.push(next.toString());
    return all.join('');
  };

  test('gives each owner its turn, and keeps the order of each', () => {
    const queue = new RelayQueue<number>(LIMITS);
    for (const letter of 'abc') queue.push(1, Buffer.from(letter), 0);
    for (const letter of 'xy') queue.push(2, Buffer.from(letter), 0);
    expect(drain(queue)).toBe('axbyc');
    expect(queue.isEmpty).toBe(true);
  });

  test('when full, drops the oldest of the owner that has the most, and leaves the others theirs', () => {
    const queue = new RelayQueue<number>(LIMITS);
    queue.push(2, Buffer.from('x'), 0);
    queue.push(2, Buffer.from('y'), 0);
    for (const letter of 'abcdefghijklmnop') queue.push(1, Buffer.from(letter), 0);
    const sent = drain(queue);
    expect(sent.replaceAll(/[a-p]/g, '')).toBe('xy');
    expect(sent.replaceAll(/[xy]/g, '')).toBe('ijklmnop');
    expect(queue.takeDropped()).toBe(8);
  });

  test('drops what has waited for too long', () => {
    const queue = new RelayQueue<number>(LIMITS);
    queue.push(1, Buffer.from('a'), 0);
    queue.push(1, Buffer.from('b'), 500);
    expect(drain(queue, 1001)).toBe('b');
    expect(queue.takeDropped()).toBe(1);
  });

  test('drops what has waited for too long when it is asked to, of all owners', () => {
    const queue = new RelayQueue<number>(LIMITS);
    queue.push(1, Buffer.from('a'), 0);
    queue.push(2, Buffer.from('b'), 0);
    queue.push(2, Buffer.from('c'), 500);
    queue.expire(1001);
    expect([queue.takeDropped(), drain(queue, 1001)]).toEqual([2, 'c']);
    queue.push(1, Buffer.from('d'), 0);
    queue.expire(2000);
    expect(queue.isEmpty).toBe(true);
  });

  test('forgets all when it is cleared', () => {
    const queue = new RelayQueue<number>(LIMITS);
    queue.push(1, Buffer.from('a'), 0);
    queue.clear();
    expect([queue.isEmpty, drain(queue)]).toEqual([true, '']);
  });
});

describe('frames between nodes', () => {
  const MESSAGES: RelayedMessage[] = [
    { room: 'partyline:room:1:a', peer: 'alice', message: Buffer.from('hello') },
    { room: `r${'😀'.repeat(128)}`, peer: '会'.repeat(128), message: Buffer.alloc(64 * 1024, 7) },
    { room: 'a', peer: 'b', message: Buffer.alloc(1) },
  ];
  const read = (chunks: Buffer[]) => {
    const got: (RelayedMessage | 'probe')[] = [];
    const reader = new RelayFrameReader(
      (message) => got.push({ ...message, message: Buffer.from(message.message) }),
      () => got.push('probe'),
    );
    for (const chunk of chunks) reader.push(chunk);
    return got;
  };

  test.each([1, 2, 3, 5, 1000, 16_384, 1 << 20])('are read in chunks of %i bytes', (chunkBytes) => {
    const stream = Buffer.concat([
      ...MESSAGES.map((message) => writeRelayFrame(message)),
      PROBE,
      writeRelayFrame(MESSAGES[0]!),
    ]);
    const chunks: Buffer[] = [];
    for (let at = 0; at < stream.length; at += chunkBytes) {
      chunks.push(stream.subarray(at, at + chunkBytes));
    }
    expect(read(chunks)).toEqual([...MESSAGES, 'probe', MESSAGES[0]]);
  });

  test.each([
    ['longer than any message', [0, 2, 0, 0]],
    ['of all ones', [255, 255, 255, 255, 0]],
    ['too short for names', [0, 0, 0, 3, 0, 0, 0]],
    ['that ends within its names', [0, 0, 0, 5, 0, 9, 0, 9, 0]],
  ])('a frame %s is refused', (_what, bytes) => {
    expect(() => read([Buffer.from(bytes)])).toThrow('relay frame');
  });
});
