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
import { encodeOpus, opusTone } from '../../../support/sound.ts';

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
      const pacer = new Pacer<{ durationMs: number; isQuiet: boolean; gapMs: number }>();
      let nextTickMs = 4;
      const sendDue = (nowMs: number) => {
        for (let due = pacer.take(nowMs); due; due = pacer.take(nowMs)) {
          stream.send(nowMs, due.gapMs);
        }
      };
      for (let i = 0; i * everyMs < 30 * MINUTE_MS; i += 1) {
        const atMs = i * everyMs + random() * 5;
        for (; nextTickMs <= atMs; nextTickMs += 20) sendDue(nextTickMs);
        pacer.push({ durationMs: 20, isQuiet: i % 100 < 20, gapMs: 0 }, atMs);
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

describe('Playout of a stream that carries copies (in-band FEC)', () => {
  /** Plays speech of which some packets are lost, and counts how the decoder made up for them. */
  async function playLossy(lostShare: number, fec: boolean, lossyMs = MINUTE_MS) {
    const speech = await encodeOpus(soundOf('speech', 48_000, MINUTE_MS, seededRandom(7)), 20, {
      application: Application.Voip,
      signal: Signal.Voice,
      bitrate: 24_000,
      packetLossPercent: 10,
      fec,
    });
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
    for (const [i, payload] of speech.entries()) {
      const packet = { sequenceNumber: i, timestamp: i * 960, payload };
      if (i > 20 && i * 20 < lossyMs && random() < lostShare) lost += 1;
      else buffer.insert(packet, 960, i * 20 + random() * 3);
      depthsMs.push(buffer.depthMs);
      playout.pull(new Float32Array(FRAME_SAMPLES), i * 20 + 10);
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
      // Not the first ones, which show that it is worth waiting; and of two in a row the first has no copy.
      expect(recovered).toBeGreaterThanOrEqual((0.95 - lostShare) * lost - 4);
      expect(concealed).toBeLessThan(0.12 * lost + 5);
      expect(mean(depthsMs)).toBeLessThan(45);
    },
  );

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
