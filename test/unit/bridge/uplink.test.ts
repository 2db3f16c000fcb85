import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { loadCodecs } from '../../../src/audio/codecs.ts';
import { DECODER_MEMORY_PACKETS } from '../../../src/audio/opus-codec.ts';
import { LateBeginning } from '../../../src/audio/mixing/late-beginning.ts';
import { Uplink } from '../../../src/bridge/uplink.ts';
import { counters } from '../../../src/counters.ts';
import type { PlainProducer } from '../../../src/media/plain-leg.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import { parseRtpPacket } from '../../../src/rtp/packet.ts';
import { HandClock } from '../../support/simulated-room.ts';
import { opusTone } from '../../support/sound.ts';

const TIMINGS = { ...DEFAULT_TIMINGS.budgets, ...DEFAULT_TIMINGS.mediaWorkers };

test('a client that is closed because it sends too fast is heard no more, and keeps no clock running', () => {
  const clock = new HandClock();
  let heard = 0;
  const faults: unknown[] = [];
  const uplink = new Uplink(
    () => {
      throw new Error('nobody listens behind the router');
    },
    { isOpen: false },
    { mixer: { receive: () => (heard += 1), openLateBeginning: () => undefined }, peer: 'ann' },
    clock,
    TIMINGS,
    {
      onProducer: async () => {},
      onFlow: () => {},
      onFault: (fault) => {
        faults.push(fault);
        uplink.close();
      },
    },
  );
  const startMs = performance.now();
  for (let i = 0; faults.length === 0; i += 1) {
    uplink.send(Buffer.of(0xf8, 1, 2), 960, 20, startMs + i * 10);
  }
  expect(faults.map((fault) => PartylineError.from(fault).code)).toEqual(['audio_rate_exceeded']);
  expect(heard).toBeGreaterThan(0);
  expect(clock.isRunning).toBe(false);
});

describe('send() in virtual time', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Message of one packet: arrival after the start, duration, and how long it was held before the uplink got it. */
  type Message = { atMs: number; durationMs?: number; heldMs?: number };

  /** Behaviour of a client after `xoff`: continues, stops for good, resumes by another connection and then stops, or waits for `xon`. */
  type WhenTold = 'goOn' | 'stop' | 'resume' | 'wait';
  type SendingOptions = {
    untilMs?: number;
    /** Time after the last message at which the client leaves, ms. */
    lastsMs?: number;
    isMuted?: boolean;
    whenTold?: WhenTold;
  };

  /** Sends messages in the order in which the uplink gets them, while the clock ticks, until the client is closed. */
  function sendAll(
    messages: Message[],
    { untilMs = 0, lastsMs = 3000, isMuted = false, whenTold = 'goOn' }: SendingOptions = {},
  ) {
    vi.useFakeTimers({ toFake: ['performance'] });
    const clock = new HandClock();
    const told: string[] = [];
    let [sent, heard] = [0, 0];
    const closed: { atMs?: number } = {};
    /** Dropped milliseconds that the client was told of, and the number of packets that had not been heard. */
    const droppedAt: Partial<Record<'xoff' | 'xon', { ms: number; unheard: number }>> = {};
    const uplink = new Uplink(
      () => {
        throw new Error('nobody listens behind the router');
      },
      { isOpen: false },
      { mixer: { receive: () => (heard += 1), openLateBeginning: () => undefined }, peer: 'ann' },
      clock,
      TIMINGS,
      {
        onProducer: async () => {},
        onFlow: (state, bufferedMs, droppedMs) => {
          expect(bufferedMs).toBeGreaterThanOrEqual(0);
          // A closed session sends nothing.
          if (closed.atMs !== undefined) return;
          told.push(state);
          droppedAt[state] = { ms: droppedMs, unheard: sent - heard };
        },
        onFault: (fault) => {
          told.push(PartylineError.from(fault).code);
          closed.atMs = performance.now();
          uplink.close();
        },
      },
    );
    uplink.setMuted(isMuted);
    const startMs = performance.now();
    const waiting = [...messages];
    const endMs = Math.max(untilMs, gotAtMs(messages.at(-1)!) + lastsMs);
    for (let ms = 0; ms < endMs && closed.atMs === undefined; ms += 20) {
      while (waiting.length > 0 && gotAtMs(waiting[0]!) < ms + 20 && closed.atMs === undefined) {
        const isTold = told.at(-1) === 'xoff';
        if (isTold && whenTold === 'resume') uplink.tellFlow();
        if (isTold && (whenTold === 'stop' || whenTold === 'resume')) waiting.length = 0;
        if (isTold && whenTold !== 'goOn') break;
        const next = waiting.shift()!;
        const { durationMs = 20, heldMs = 0 } = next;
        // No two messages come at the same moment.
        vi.advanceTimersByTime(Math.max(0.01, startMs + gotAtMs(next) - performance.now()));
        uplink.send(Buffer.of(0xf8, 1, 2), durationMs * 48, 20, performance.now() - heldMs);
        sent += 1;
      }
      vi.advanceTimersByTime(startMs + ms + 20 - performance.now());
      clock.tick(performance.now());
    }
    const isTicking = clock.isRunning;
    uplink.close();
    const { droppedMs } = uplink;
    const closedAfterMs = (closed.atMs ?? NaN) - startMs;
    return { sent, heard, told, droppedAt, droppedMs, closedAfterMs, isTicking };
  }

  const gotAtMs = ({ atMs, heldMs = 0 }: Message) => atMs + heldMs;

  /** Messages of one packet each, every `everyMs`. */
  const evenly = (toMs: number, everyMs = 20, each: Partial<Message> = {}): Message[] =>
    Array.from({ length: toMs / everyMs }, (_, i) => ({ atMs: i * everyMs, ...each }));

  /** Messages of a client in real time behind stalls, each given by its beginning and its length; none comes after `cutMs`. */
  const behindStalls = (durationMs: number, stalls: [number, number][], cutMs: number): Message[] =>
    evenly(cutMs, durationMs)
      .map(({ atMs }) => {
        const stall = stalls.find(([fromMs, ms]) => atMs >= fromMs && atMs < fromMs + ms);
        return { atMs: stall ? stall[0] + stall[1] : atMs, durationMs };
      })
      .filter(({ atMs }) => atMs < cutMs);

  /** Sends `perPiece` packets of 20 ms every `everyMs`. */
  const sendPieces = (
    perPiece: number,
    everyMs: number,
    durationMs: number,
    whenTold: WhenTold = 'goOn',
  ) =>
    sendAll(
      evenly(durationMs, everyMs).flatMap(({ atMs }) =>
        Array.from({ length: perPiece }, () => ({ atMs })),
      ),
      { whenTold },
    );

  test.each([
    [50, 1000],
    [25, 500],
    [100, 2000],
  ])(
    '%i packets every %i ms: all are heard, and the client is told nothing',
    (packets, everyMs) => {
      const { sent, heard, told } = sendPieces(packets, everyMs, 12_000);
      expect(sent).toBe(600);
      expect(heard).toBe(600);
      expect(told).toEqual([]);
    },
  );

  test.each([
    [2, 20],
    [100, 1000],
    [50, 500],
    [150, 1500],
    [200, 2000],
  ])(
    '%i packets every %i ms, twice real time: told to wait, and closed within 10 s',
    (packets, everyMs) => {
      const { told, closedAfterMs } = sendPieces(packets, everyMs, 20_000);
      expect([told[0], told.at(-1)]).toEqual(['xoff', 'audio_rate_exceeded']);
      expect(closedAfterMs).toBeGreaterThan(4900);
      expect(closedAfterMs).toBeLessThan(10_000);
    },
  );

  test('four seconds at once: when it may go on, the client is told how much of them was left out', () => {
    const { sent, told, droppedAt } = sendPieces(200, 5000, 5000);
    expect(sent).toBe(200);
    expect(told).toEqual(['xoff', 'xon']);
    const { ms, unheard } = droppedAt.xon!;
    expect(ms).toBeGreaterThan(1000);
    // One packet may wait for its time.
    expect(unheard * 20 - ms).toBeOneOf([0, 20, 40]);
  });

  test.each<[number, [number, number][]]>([
    [
      20,
      [
        [3000, 1000],
        [5200, 1400],
        [8100, 900],
      ],
    ],
    [
      120,
      [
        [2900, 900],
        [5300, 900],
        [7600, 600],
      ],
    ],
  ])(
    'packets of %i ms in real time, three stalls of about a second: told nothing',
    (ms, stalls) => {
      expect(sendAll(behindStalls(ms, stalls, 15_000)).told).toEqual([]);
    },
  );

  test('stalls, and then nothing: a client that is gone does not exceed the limit', () => {
    const stalls: [number, number][] = [
      [3000, 513],
      [4082, 754],
      [5741, 345],
      [6656, 997],
      [8409, 315],
      [9563, 525],
      [10_711, 832],
    ];
    const { told, isTicking } = sendAll(behindStalls(120, stalls, 12_000), { untilMs: 20_000 });
    expect(told).toEqual([]);
    expect(isTicking).toBe(false);
  });

  test.each([
    [2, 20],
    [50, 500],
  ])(
    '%i packets every %i ms, until the client is told to wait: it is told to go on, and the clock stops',
    (packets, everyMs) => {
      const { told, isTicking } = sendPieces(packets, everyMs, 8000, 'stop');
      expect(told).toEqual(['xoff', 'xon']);
      expect(isTicking).toBe(false);
    },
  );

  test('silence at 1.2 times real time, until the client is told to wait: it is told to go on', () => {
    const { told, isTicking } = sendAll(evenly(20_000, 20 / 1.2), {
      isMuted: true,
      whenTold: 'stop',
    });
    expect(told).toEqual(['xoff', 'xon']);
    expect(isTicking).toBe(false);
  });

  test('six seconds as fast as allowed, twice with a pause between: all is heard', () => {
    const at = (fromMs: number): Message[] => Array.from({ length: 300 }, () => ({ atMs: fromMs }));
    const messages = [...at(0), ...at(20_000)];
    const { heard, told } = sendAll(messages, { whenTold: 'wait', untilMs: 40_000 });
    expect(heard).toBe(600);
    expect(told.slice(0, 2)).toEqual(['xoff', 'xon']);
  });

  test('six seconds at twice real time after even sound and a pause: told to wait, although the pause would allow them', () => {
    const messages = [
      ...evenly(5000),
      ...evenly(3000, 10).map(({ atMs }) => ({ atMs: atMs + 10_000 })),
    ];
    expect(sendAll(messages, { untilMs: 20_000 }).told).toEqual(['xoff', 'xon']);
  });

  test.each([1.5, 2, 4])(
    'sentences of six seconds at %d times real time, each after the one before: told to wait, and nearly all is heard',
    (rate) => {
      const messages = Array.from({ length: 8 }, (_, i) =>
        evenly(6000 / rate, 20 / rate).map(({ atMs }) => ({ atMs: atMs + i * 7000 })),
      ).flat();
      const { sent, heard, told } = sendAll(messages, { whenTold: 'wait', untilMs: 80_000 });
      expect(told).toContain('xoff');
      expect(told).not.toContain('audio_rate_exceeded');
      expect(sent).toBe(messages.length);
      expect(heard / sent).toBeGreaterThan(0.9);
    },
  );

  test('sentences at twice real time after even sound: told to wait, and all but the first are heard', () => {
    const sentences = Array.from({ length: 8 }, (_, i) =>
      evenly(3000, 10).map(({ atMs }) => ({ atMs: atMs + 4000 + i * 7000 })),
    ).flat();
    const messages = [...evenly(3000), ...sentences];
    const { sent, heard, told } = sendAll(messages, { whenTold: 'wait', untilMs: 80_000 });
    expect(told).toContain('xoff');
    expect(sent - heard).toBeLessThan(0.75 * 300);
  });

  test('a client that resumes while it is to wait is told so again, and then that it may go on', () => {
    const { told } = sendPieces(2, 20, 8000, 'resume');
    expect(told).toEqual(['xoff', 'xoff', 'xon']);
  });

  test('a client that leaves its room while it is to wait is told that it may go on', () => {
    const { told } = sendAll(
      evenly(1500, 10).map(() => ({ atMs: 0 })),
      { untilMs: 20, lastsMs: 0 },
    );
    expect(told).toEqual(['xoff', 'xon']);
  });

  test('a muted client whose packets the decoder gives back 60 ms late: told nothing, and none is counted as too fast', () => {
    const before = counters.dropped.too_fast;
    const { told, droppedMs } = sendAll(evenly(8000, 20, { heldMs: 60 }), { isMuted: true });
    expect(told).toEqual([]);
    expect(counters.dropped.too_fast - before).toBe(0);
    // The decoder stays as late: nothing would be gained if silence were left out.
    expect(droppedMs).toBe(0);
  });
});

test('packets after some that did not go to the router are encoded anew: after mute, and for a new leg', async () => {
  const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const said = await opusTone(440, 0.25, 500);
  const heard: Buffer[] = [];
  const sent: { payload: Buffer; timestamp: number }[] = [];
  const producer: PlainProducer = {
    id: 'producer',
    ssrc: 1,
    payloadType: 100,
    levelExtensionId: 1,
    send: (datagram) => void sent.push(parseRtpPacket(datagram, 1)!),
    close: () => {},
  };
  const uplink = new Uplink(
    () => ({ produce: async () => producer, isClosed: false }),
    { isOpen: true },
    {
      mixer: {
        receive: (_peer, { payload }) => void heard.push(payload),
        openLateBeginning: () =>
          heard.length > 0 ? LateBeginning.open(codecs.opus, heard.slice(-9)) : undefined,
      },
      peer: 'ann',
    },
    new HandClock(),
    TIMINGS,
    {
      onProducer: async () => {},
      onFlow: () => {},
      onFault: (fault) => {
        throw fault;
      },
    },
  );
  vi.useFakeTimers({ toFake: ['performance'] });
  const send = async (i: number) => {
    vi.advanceTimersByTime(20);
    uplink.send(said[i]!, 960, 20, performance.now());
    await new Promise(setImmediate);
  };
  const isAsSent = ({ payload }: { payload: Buffer }) => said.some((own) => own.equals(payload));
  await send(0);
  await send(1);
  expect(sent.map(isAsSent)).toEqual([true, true]);
  uplink.setMuted(true);
  await send(2);
  await send(3);
  expect(sent).toHaveLength(2);
  uplink.setMuted(false);
  await send(4);
  await send(5);
  expect(sent.slice(2).map(isAsSent)).toEqual([false, false]);
  // Packets that were withheld are missing from the sound, not from its time.
  const [, before, after] = sent;
  expect((after!.timestamp - before!.timestamp) >>> 0).toBe(3 * 960);
  uplink.reset();
  await send(6);
  expect(sent.slice(4).map(isAsSent)).toEqual([false]);
  uplink.close();
  vi.useRealTimers();
});

test.each([
  [1000, 3],
  [500, 5],
])(
  'a producer that cannot be opened is a fault each %i ms, and packets from then on open another',
  async (producerRetryMs, faultsExpected) => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const sent: Buffer[] = [];
    const producer: PlainProducer = {
      id: 'producer',
      ssrc: 1,
      payloadType: 100,
      levelExtensionId: 1,
      send: (datagram) => void sent.push(parseRtpPacket(datagram, 1)!.payload),
      close: () => {},
    };
    const faults: unknown[] = [];
    let isRefused = true;
    const produce = async () => {
      if (isRefused) throw new Error('no ports');
      return producer;
    };
    const uplink = new Uplink(
      () => ({ produce, isClosed: false }),
      { isOpen: true },
      { mixer: { receive: () => {}, openLateBeginning: () => undefined }, peer: 'ann' },
      new HandClock(),
      { ...TIMINGS, producerRetryMs },
      { onProducer: async () => {}, onFlow: () => {}, onFault: (fault) => faults.push(fault) },
    );
    const said = Array.from({ length: 200 }, (_, i) => Buffer.of(0xf8, i, 2));
    for (const [i, packet] of said.entries()) {
      vi.advanceTimersByTime(20);
      isRefused = i < 125;
      uplink.send(packet, 960, 20, performance.now());
      await new Promise(setImmediate);
    }
    expect(faults.map(String)).toEqual(Array(faultsExpected).fill('Error: no ports'));
    expect(sent).toEqual(said.slice((faultsExpected * producerRetryMs) / 20));
    uplink.close();
  },
);

test('only a muted peer is unmuted, and only the packets that a decoder needs before the next one are kept', () => {
  const uplink = new Uplink(
    () => {
      throw new Error('nobody listens behind the router');
    },
    { isOpen: false },
    { mixer: { receive: () => {}, openLateBeginning: () => undefined }, peer: 'ann' },
    new HandClock(),
    TIMINGS,
    { onProducer: async () => {}, onFlow: () => {}, onFault: () => {} },
  );
  const startMs = performance.now();
  uplink.setMuted(false, startMs + 1000);
  expect(uplink.isMutedAt(startMs)).toBe(false);
  const said = Array.from({ length: 10 }, (_, i) => Buffer.of(0xf8, i, 2));
  for (const [i, packet] of said.entries()) uplink.send(packet, 960, 20, startMs + i * 20);
  expect(uplink.last.packets).toEqual(said.slice(-DECODER_MEMORY_PACKETS));
  uplink.close();
});
