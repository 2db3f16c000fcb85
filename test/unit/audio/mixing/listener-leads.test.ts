import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { opusPacketSamples } from '../../../../src/audio/opus-packet.ts';
import { FrameSource, ListenerLeads } from '../../../../src/audio/mixing/listener-leads.ts';
import type { Listener } from '../../../../src/audio/mixing/subscriptions.ts';
import { SAMPLES_PER_MS } from '../../../../src/rtp/clock-rate.ts';
import { seededRandom } from '../../../support/random.ts';
import { type Arrival, type Heard, SimulatedRoom } from '../../../support/simulated-room.ts';
import { encodeOpus, tone } from '../../../support/sound.ts';
import { noise } from '../../../support/speech.ts';

const FOR_MS = 60_000;
const WORD_MS = 1500;
const PAUSE_MS = 720;
const WORD_LEVEL = 20;
const PAUSE_LEVEL = 80;

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 0 });
});

/** True while one of two speakers, which talk by turns, says a word. */
const talksAt = (atMs: number, turn: number, pauseMs = PAUSE_MS): boolean =>
  Math.floor(atMs / (WORD_MS + pauseMs)) % 2 === turn && atMs % (WORD_MS + pauseMs) < WORD_MS;

/** One of two speakers, whose packets come `laterMs` later than every `packetMs`. @param talks true while it says a word */
async function speakerOf(
  peer: string,
  packetMs: number,
  laterMs: () => number,
  talks: (atMs: number) => boolean,
  forMs = FOR_MS,
) {
  const [word, pause] = await Promise.all([
    encodeOpus(tone(200, 0.2, 600), packetMs),
    encodeOpus(noise(-PAUSE_LEVEL, 600, 1), packetMs),
  ]);
  const arrivals: Arrival[] = [];
  for (let number = 0; number * packetMs < forMs; number += 1) {
    const isTalking = talks(number * packetMs);
    const payloads = isTalking ? word : pause;
    const packet = {
      sequenceNumber: number & 0xffff,
      timestamp: number * packetMs * 48,
      marker: false,
      audioLevel: isTalking ? WORD_LEVEL : PAUSE_LEVEL,
      payload: payloads[number % payloads.length]!,
    };
    arrivals.push({ peer, packet, atMs: number * packetMs + laterMs() });
  }
  return arrivals;
}

/** Plays two speakers by turns to a listener. @returns how much longer its frames are than the time in which they came */
async function hearTurns(packetMs: number, apartMs: number, jitterMs: number, lateMs: number) {
  const random = seededRandom(3);
  const jitter = () => random() * jitterMs;
  const room = new SimulatedRoom(codecs, ['a', 'b'], lateMs, true);
  const { frames, framesAtMs } = room.listen('c', { codec: 'opus' });
  await room.play(
    await speakerOf(
      'a',
      packetMs,
      () => 1 + jitter(),
      (atMs) => talksAt(atMs, 0),
    ),
    await speakerOf(
      'b',
      packetMs,
      () => 1 + apartMs + jitter(),
      (atMs) => talksAt(atMs, 1),
    ),
  );
  room.mixer.close();
  const soundMs = frames.reduce((sum, frame) => sum + opusPacketSamples(frame)! / 48, 0);
  return { leadMs: soundMs - (framesAtMs.at(-1)! - framesAtMs[0]!), framesAtMs };
}

describe('listeners to Opus, where two speakers talk by turns', () => {
  test.each([
    [20, 5, 0],
    [20, 19, 0],
    [20, 10, 8],
    [60, 25, 0],
  ])(
    'packets of %i ms, %i ms apart, with %i ms of jitter: nothing adds up, and words are whole',
    async (packetMs, apartMs, jitterMs) => {
      const { leadMs, framesAtMs } = await hearTurns(packetMs, apartMs, jitterMs, 0);
      expect(leadMs).toBeLessThanOrEqual(40 + packetMs);
      expect(leadMs).toBeGreaterThanOrEqual(-20);
      // A packet is only left out long after a word.
      const gaps = framesAtMs.filter(
        (atMs, i) => atMs - framesAtMs[i - 1]! > 1.5 * packetMs + jitterMs,
      );
      expect(gaps.length).toBeGreaterThan(0);
      for (const atMs of gaps) {
        const isWord = [0, 1].some((turn) => talksAt(atMs - packetMs, turn));
        const wasWord = [0, 1].some((turn) => talksAt(atMs - 120 - packetMs, turn));
        expect(isWord || wasWord, `a packet is left out at ${atMs} ms`).toBe(false);
      }
    },
  );

  test.each([
    [20, 15],
    [20, 25],
    [60, 15],
    [60, 25],
  ])(
    'packets of %i ms, and a mixing thread that is %i ms late: nothing adds up',
    async (packetMs, lateMs) => {
      const { leadMs } = await hearTurns(packetMs, 12, 8, lateMs);
      expect(leadMs).toBeLessThanOrEqual(40 + 2 * packetMs);
      expect(leadMs).toBeGreaterThanOrEqual(-packetMs - 20);
    },
  );

  test('what a speaker has not sent for a while has been played: nothing is left out for it afterwards', async () => {
    const outage = { fromMs: 60_000, toMs: 70_000 };
    const room = new SimulatedRoom(codecs, ['a', 'b'], 0, true);
    const { framesAtMs } = room.listen('c', { codec: 'opus' });
    const streams = await Promise.all(
      ['a', 'b'].map(async (peer, turn) => {
        // Pauses are too short for anything to be left out, so that changes of speaker add up.
        const talks = (atMs: number) => atMs < 59_000 && talksAt(atMs, turn, 100);
        const all = await speakerOf(peer, 60, () => 1 + 12 * turn, talks, 80_000);
        return all.filter(({ atMs }) => atMs < outage.fromMs || atMs > outage.toMs);
      }),
    );
    await room.play(...streams);
    room.mixer.close();
    const later = framesAtMs.filter((atMs) => atMs > outage.toMs);
    expect(later.length).toBeGreaterThan(100);
    expect(later.filter((atMs, i) => i > 0 && atMs - later[i - 1]! > 100)).toEqual([]);
  });

  test('a pause of one speaker before the change to another takes off the lead, too', () => {
    const leads = new ListenerLeads();
    const listener: Listener = {
      peer: 'c',
      format: { codec: 'opus' },
      delivery: 'mix',
      volume: {},
      deliver: () => {},
      concealed: () => {},
    };
    const [a, b] = [{ source: new FrameSource() }, { source: new FrameSource() }];
    const hear = (speaker: typeof a) =>
      leads.plan(new Map(), new Map([[speaker, new Set([listener])]]), []);
    const packet = { durationSamples: 60 * SAMPLES_PER_MS, isSpare: true };
    let nowMs = 0;
    const send = ({ source }: typeof a, afterMs: number) => {
      nowMs += afterMs;
      leads.sent(source, packet.durationSamples, nowMs);
    };
    hear(a);
    send(a, 0);
    // Each change comes 10 ms after a packet of 60 ms.
    for (const speaker of [b, a, b]) {
      hear(speaker);
      send(speaker, 10);
    }
    expect(leads.leavesOut(listener, b.source, packet, nowMs)).toBe(true);
    // It is still more than a packet ahead, but a decoder gets to know the stream again first.
    expect(leads.leavesOut(listener, b.source, packet, nowMs + 60)).toBe(false);
    send(b, 5000);
    hear(a);
    send(a, 60);
    expect(leads.leavesOut(listener, a.source, packet, nowMs + 1000)).toBe(false);
  });
});

describe('listeners to Opus, where three speakers talk over each other, and send their pauses', () => {
  const CONVERSATION_MS = 240_000;

  /** Spurts of talk of 0.3 to 2.8 s, with pauses of 0.3 to 5.3 s. @returns a function that is true within a spurt */
  function spurts(seed: number): (atMs: number) => boolean {
    const random = seededRandom(seed);
    let [isTalking, untilMs] = [false, random() * 3000];
    return (atMs) => {
      if (atMs > untilMs) {
        isTalking = !isTalking;
        untilMs = atMs + 300 + random() * (isTalking ? 2500 : 5000);
      }
      return isTalking;
    };
  }

  /** Returns how long each frame has to wait in a player that plays all that it is sent, ms, in the order of their waits. */
  function waitsOf({ frames, framesAtMs }: Heard): number[] {
    let endsAtMs = 0;
    const waitsMs = frames.map((frame, i) => {
      const waitMs = Math.max(0, endsAtMs - framesAtMs[i]!);
      endsAtMs = framesAtMs[i]! + waitMs + opusPacketSamples(frame)! / SAMPLES_PER_MS;
      return waitMs;
    });
    return waitsMs.toSorted((a, b) => a - b);
  }

  test.each([
    [20, 3, 0],
    [20, 40, 0],
    [20, 3, 15],
    [20, 3, 25],
    [60, 3, 0],
  ])(
    'packets of %i ms, with %i ms of jitter, and mixes that are %i ms late: nothing adds up',
    async (packetMs, jitterMs, lateMs) => {
      const room = new SimulatedRoom(codecs, ['a', 'b', 'c'], lateMs, true);
      const listening = ['x', 'a'].map((peer) => room.listen(peer, { codec: 'opus' }));
      const streams = await Promise.all(
        ['a', 'b', 'c'].map((peer, i) => {
          const random = seededRandom(i + 10);
          const laterMs = () => 7 * i + random() * jitterMs;
          return speakerOf(peer, packetMs, laterMs, spurts(i + 2), CONVERSATION_MS);
        }),
      );
      await room.play(...streams);
      room.mixer.close();
      for (const heard of listening) {
        const waitsMs = waitsOf(heard);
        const middle = waitsMs[waitsMs.length >> 1]!;
        expect(middle).toBeLessThanOrEqual(packetMs + jitterMs / 2 + 40);
        expect(waitsMs.at(-1)).toBeLessThanOrEqual(2.5 * packetMs + 1.5 * jitterMs + 80);
      }
    },
  );
});
