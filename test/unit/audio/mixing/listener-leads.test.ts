import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { opusPacketSamples } from '../../../../src/audio/opus-packet.ts';
import { seededRandom } from '../../../support/random.ts';
import { type Arrival, SimulatedRoom } from '../../../support/simulated-room.ts';
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

/** True while one of two speakers, who talk by turns, says a word. */
const talksAt = (atMs: number, turn: number): boolean =>
  Math.floor(atMs / (WORD_MS + PAUSE_MS)) % 2 === turn && atMs % (WORD_MS + PAUSE_MS) < WORD_MS;

/** One of two speakers who talk by turns, and whose packets come `laterMs` later than every `packetMs`. */
async function speakerOf(peer: string, turn: number, packetMs: number, laterMs: () => number) {
  const [word, pause] = await Promise.all([
    encodeOpus(tone(200, 0.2, 600), packetMs),
    encodeOpus(noise(-PAUSE_LEVEL, 600, 1), packetMs),
  ]);
  const arrivals: Arrival[] = [];
  for (let number = 0; number * packetMs < FOR_MS; number += 1) {
    const isTalking = talksAt(number * packetMs, turn);
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

describe('listeners to Opus, where two speakers talk by turns', () => {
  test.each([
    [20, 5, 0],
    [20, 19, 0],
    [20, 10, 8],
    [60, 25, 0],
  ])(
    'packets of %i ms, %i ms apart, with %i ms of jitter: nothing adds up, and words are whole',
    async (packetMs, apartMs, jitterMs) => {
      const random = seededRandom(3);
      const jitter = () => random() * jitterMs;
      const room = new SimulatedRoom(codecs, ['a', 'b'], 0, true);
      const { frames, framesAtMs } = room.listen('c', { codec: 'opus' });
      await room.play(
        await speakerOf('a', 0, packetMs, () => 1 + jitter()),
        await speakerOf('b', 1, packetMs, () => 1 + apartMs + jitter()),
      );
      room.mixer.close();
      const soundMs = frames.reduce((sum, frame) => sum + opusPacketSamples(frame)! / 48, 0);
      const leadMs = soundMs - (framesAtMs.at(-1)! - framesAtMs[0]!);
      expect(leadMs).toBeLessThanOrEqual(40 + packetMs);
      expect(leadMs).toBeGreaterThanOrEqual(-20);
      // A packet is only left out long after a word.
      const gaps = framesAtMs.filter(
        (atMs, i) => atMs - framesAtMs[i - 1]! > 1.5 * packetMs + jitterMs,
      );
      expect(gaps.length).toBeGreaterThan(0);
      for (const atMs of gaps) {
        const isWord = [0, 1].some((turn) => talksAt(atMs - packetMs, turn));
        const wasWord = [0, 1].some((turn) => talksAt(atMs - 400, turn));
        expect(isWord || wasWord, `a packet is left out at ${atMs} ms`).toBe(false);
      }
    },
  );
});
