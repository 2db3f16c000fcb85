import { Application, Signal } from 'libopus-wasm';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadOpusCodec, type OpusCodec } from '../../../../src/audio/opus-codec.ts';
import { Playout } from '../../../../src/audio/mixing/playout.ts';
import { FRAME_SAMPLES } from '../../../../src/audio/format.ts';
import { JitterBuffer } from '../../../../src/rtp/jitter-buffer.ts';
import { Pacer } from '../../../../src/rtp/pacer.ts';
import { Packetizer } from '../../../../src/rtp/packetizer.ts';
import { seededRandom } from '../../../support/random.ts';
import { soundOf } from '../../../support/corpus.ts';
import { findGlitches } from '../../../support/glitches.ts';
import { joinAll } from '../../../support/simulated-room.ts';
import { encodeOpus, opusTone, tone as toneOf } from '../../../support/sound.ts';

const LIMITS = { minMs: 5, maxMs: 200 };
const MINUTE_MS = 60_000;

let codec: OpusCodec;
let tone: Buffer[];
beforeAll(async () => {
  codec = await loadOpusCodec({ bitrateBps: 48_000, complexity: 5 });
  tone = await opusTone(500, 0.25, 1000);
});

/** A speaker whose packets are played 20 ms at a time, on a simulated clock. */
async function openStream() {
  const buffer = new JitterBuffer(LIMITS);
  const decoder = await codec.createDecoder();
  const playout = new Playout(buffer, decoder, () => {});
  const packetizer = new Packetizer({ sequenceNumber: 1, timestamp: 0 });
  const depthsMs: number[] = [];
  let nextTickMs = 10;
  let number = 0;
  const until = (atMs: number) => {
    for (; nextTickMs <= atMs; nextTickMs += 20) {
      depthsMs.push(buffer.depthMs);
      playout.pull(new Float32Array(FRAME_SAMPLES), nextTickMs);
    }
  };
  /** Sends the next packet, which comes at `atMs`, `gapMs` after the end of the last by the sender's clock. */
  const send = (atMs: number, gapMs = 0) => {
    until(atMs);
    const payload = tone[number % tone.length]!;
    number += 1;
    const packet = packetizer.packetize(payload, FRAME_SAMPLES, 20, Math.round(gapMs * 48));
    buffer.insert(packet, FRAME_SAMPLES, atMs);
  };
  return { buffer, playout, depthsMs, send };
}

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('Playout of a JitterBuffer', () => {
  const expectSteady = (
    { buffer, playout, depthsMs }: Awaited<ReturnType<typeof openStream>>,
    mostConcealed: number,
  ) => {
    const lastMinuteMs = depthsMs.slice(-3000);
    const concealedShare = playout.concealedSamples / 48 / (30 * MINUTE_MS);
    // A packet waits for its tick besides.
    expect(mean(lastMinuteMs)).toBeLessThan(buffer.targetMs + 35);
    expect(Math.max(...lastMinuteMs)).toBeLessThanOrEqual(80);
    expect(Math.max(...depthsMs.slice(500))).toBeLessThanOrEqual(120);
    expect(buffer.droppedPackets).toBe(0);
    expect(concealedShare).toBeLessThan(mostConcealed);
    return [
      `target ${buffer.targetMs.toFixed(0)} ms`,
      `depth in the last minute ${mean(lastMinuteMs).toFixed(0)} ms`,
      `made up ${(concealedShare * 100).toFixed(2)} %`,
    ].join(', ');
  };

  test.for([1500, -1500])(
    'a clock off by %i ppm for 30 minutes: what waits stays near the target',
    { timeout: 60_000 },
    async (ppm, { annotate }) => {
      const stream = await openStream();
      const random = seededRandom(3);
      const everyMs = 20 * (1 - ppm / 1e6);
      for (let i = 0; i * everyMs < 30 * MINUTE_MS; i += 1) stream.send(i * everyMs + random() * 5);
      expect(stream.buffer.targetMs).toBeLessThan(25);
      await annotate(expectSteady(stream, 0.001));
    },
  );

  test.for([19, 21])(
    'a WebSocket client that sends every %i ms for 30 minutes: paced, and then near the target',
    { timeout: 60_000 },
    async (everyMs, { annotate }) => {
      const stream = await openStream();
      const random = seededRandom(3);
      const pacer = new Pacer<{
        durationMs: number;
        isQuiet: boolean;
        gapMs: number;
        isSpare: boolean;
      }>();
      let nextTickMs = 4;
      const sendDue = (nowMs: number) => {
        for (let due = pacer.take(nowMs); due; due = pacer.take(nowMs)) {
          stream.send(nowMs, due.gapMs);
        }
      };
      for (let i = 0; i * everyMs < 30 * MINUTE_MS; i += 1) {
        const atMs = i * everyMs + random() * 5;
        for (; nextTickMs <= atMs; nextTickMs += 20) sendDue(nextTickMs);
        pacer.push({ durationMs: 20, isQuiet: i % 100 < 20, gapMs: 0, isSpare: false }, atMs);
        sendDue(atMs);
      }
      expect(stream.buffer.targetMs).toBeLessThan(100);
      // Audio that a slow client does not send is concealed, or a pause.
      await annotate(expectSteady(stream, 0.03));
    },
  );

  test('after 3 s of jitter of 150 ms: the target is back within 10 s, and so is what waits', async () => {
    const { buffer, playout, depthsMs, send } = await openStream();
    const random = seededRandom(5);
    let lastMs = 0;
    const sendTill = (untilMs: number, jitterMs: number) => {
      for (let at = Math.round(lastMs / 20) * 20; at < untilMs; at += 20) {
        lastMs = Math.max(lastMs, at + random() * jitterMs);
        send(lastMs);
      }
      lastMs = untilMs;
    };
    sendTill(5000, 3);
    sendTill(8000, 150);
    expect(buffer.targetMs).toBeGreaterThan(100);
    sendTill(18_000, 3);
    const concealedMs = playout.concealedSamples / 48;
    expect(buffer.targetMs).toBeLessThan(20);
    expect(mean(depthsMs.slice(-50))).toBeLessThan(60);
    sendTill(30_000, 3);
    expect(playout.concealedSamples / 48 - concealedMs).toBeLessThanOrEqual(20);
  });

  test('packets that come late and all at once are played at once: they have waited long enough', async () => {
    const { depthsMs, send } = await openStream();
    for (let i = 0; i < 50; i += 1) send(i * 20);
    for (let i = 50; i < 57; i += 1) send(56 * 20 + 1);
    for (let i = 57; i < 80; i += 1) send(i * 20);
    expect(Math.max(...depthsMs)).toBeLessThanOrEqual(160);
  });
});

describe.each([10, 5, 2.5])('Playout of packets of %f ms', (packetMs) => {
  /** Plays a tone whose packets are sent at the times that `atMs` returns. */
  async function play(lastMs: number, atMs: (sentMs: number) => number) {
    const payloads = await encodeOpus(toneOf(525, 0.3, 2200), packetMs);
    // Repeated from a time on at which the encoder is settled: 2 s hold a whole number of periods.
    const [first, perLoop] = [200 / packetMs, 2000 / packetMs];
    const buffer = new JitterBuffer(LIMITS);
    const playout = new Playout(buffer, await codec.createDecoder(), () => {});
    const frames: Float32Array[] = [];
    const depthsMs: number[] = [];
    let number = 0;
    for (let tickMs = 10; tickMs < lastMs; tickMs += 20) {
      for (; atMs(number * packetMs) <= tickMs; number += 1) {
        const timestamp = number * packetMs * 48;
        const packet = {
          sequenceNumber: number & 0xffff,
          timestamp,
          payload: payloads[number < first ? number : first + ((number - first) % perLoop)]!,
        };
        buffer.insert(packet, packetMs * 48, atMs(number * packetMs));
      }
      const frame = new Float32Array(FRAME_SAMPLES);
      playout.pull(frame, tickMs);
      frames.push(frame);
      depthsMs.push(buffer.depthMs);
    }
    playout.close();
    return { buffer, playout, depthsMs, sound: joinAll(frames) };
  }

  test('one stall of 150 ms: its delay is gone within 10 s, without a click', async () => {
    const { buffer, depthsMs, sound } = await play(20_000, (sentMs) =>
      sentMs >= 2000 && sentMs < 2150 ? 2150 : sentMs,
    );
    expect(Math.max(...depthsMs)).toBeGreaterThan(100);
    expect(Math.max(...depthsMs.slice(600))).toBeLessThanOrEqual(20);
    expect(buffer.droppedPackets).toBe(0);
    // From the end of the stall on.
    expect(findGlitches(sound.subarray(2300 * 48, 12_000 * 48))).toEqual([]);
  });

  test('a stall of 60 ms again and again: nothing is made up once it is known', async () => {
    const concealed = async (lastMs: number) => {
      const { playout } = await play(lastMs, (sentMs) => {
        const sinceMs = sentMs % 1500;
        return sentMs >= 1500 && sinceMs < 60 ? sentMs - sinceMs + 60 : sentMs;
      });
      return playout.concealedSamples;
    };
    expect(await concealed(15_000)).toBe(await concealed(6000));
  });

  test.each([1500, -1500])(
    'a clock off by %i ppm: what waits does not grow, and there is no click',
    async (ppm) => {
      const { buffer, playout, depthsMs, sound } = await play(
        MINUTE_MS,
        (sentMs) => sentMs * (1 - ppm / 1e6),
      );
      expect(Math.max(...depthsMs)).toBeLessThanOrEqual(30);
      expect(buffer.droppedPackets).toBe(0);
      expect(playout.concealedSamples).toBeLessThanOrEqual(960);
      expect(findGlitches(sound.subarray(4800, 15_000 * 48))).toEqual([]);
    },
  );
});

describe('Playout of a stream that carries copies (in-band FEC)', () => {
  /** Plays speech of which some packets are lost, and counts how the decoder made up for them. */
  async function playLossy(lostShare: number, fec: boolean, lossyMs = MINUTE_MS, packetMs = 20) {
    const speech = await encodeOpus(
      soundOf('speech', 48_000, MINUTE_MS, seededRandom(7)),
      packetMs,
      {
        application: Application.Voip,
        signal: Signal.Voice,
        bitrate: 24_000,
        packetLossPercent: 10,
        fec,
      },
    );
    const decoder = await codec.createDecoder();
    const madeUp = { recovered: 0, concealed: 0 };
    const buffer = new JitterBuffer(LIMITS);
    const counting = {
      ...decoder,
      recover: (next: Buffer, samples: number) => {
        madeUp.recovered += 1;
        return decoder.recover(next, samples);
      },
      conceal: (samples: number) => {
        madeUp.concealed += 1;
        return decoder.conceal(samples);
      },
    };
    const playout = new Playout(buffer, counting, () => {});
    const random = seededRandom(11);
    const depthsMs: number[] = [];
    let lost = 0;
    let nextTickMs = 10;
    for (const [i, payload] of speech.entries()) {
      const samples = packetMs * 48;
      for (; nextTickMs < i * packetMs; nextTickMs += 20) {
        depthsMs.push(buffer.depthMs);
        playout.pull(new Float32Array(FRAME_SAMPLES), nextTickMs);
      }
      const packet = { sequenceNumber: i, timestamp: i * samples, payload };
      if (i > 20 && i * packetMs < lossyMs && random() < lostShare) lost += 1;
      else buffer.insert(packet, samples, i * packetMs + random() * 3);
    }
    decoder.close();
    return { ...madeUp, lost, depthsMs };
  }

  test.for([0.01, 0.05, 0.1])(
    '%f lost: nearly all is read from the copies, for which it is played a packet later',
    async (lostShare, { annotate }) => {
      const { lost, recovered, concealed, depthsMs } = await playLossy(lostShare, true);
      await annotate(
        `of ${lost} lost ${recovered} recovered; waiting ${mean(depthsMs).toFixed(0)} ms`,
      );
      // Not the first ones, which show that it is worth waiting; and of two in a row the first has
      // no copy.
      expect(recovered).toBeGreaterThanOrEqual((0.95 - lostShare) * lost - 4);
      expect(concealed).toBeLessThan(0.12 * lost + 5);
      expect(mean(depthsMs)).toBeLessThan(45);
    },
  );

  test('5 % of packets of 10 ms lost: most are read from the copies, too', async () => {
    const { lost, recovered, depthsMs } = await playLossy(0.05, true, MINUTE_MS, 10);
    expect(recovered).toBeGreaterThanOrEqual(0.85 * lost);
    expect(mean(depthsMs)).toBeLessThan(45);
  });

  test('5 % lost, and no copies: it is played as soon as ever', async () => {
    const { recovered, concealed, depthsMs } = await playLossy(0.05, false);
    expect(recovered).toBe(0);
    expect(concealed).toBeGreaterThan(100);
    expect(mean(depthsMs)).toBeLessThan(25);
  });

  test('a spell of losses that ends: within 20 s it is played as soon as before', async () => {
    const { depthsMs } = await playLossy(0.1, true, 30_000);
    expect(mean(depthsMs.slice(1000, 1500))).toBeGreaterThan(30);
    expect(mean(depthsMs.slice(2500))).toBeLessThan(25);
  });
});
