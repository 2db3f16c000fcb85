import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { SampleFormat } from '../../../src/audio/format.ts';
import { Pacer } from '../../../src/rtp/pacer.ts';
import { Packetizer } from '../../../src/rtp/packetizer.ts';
import { findGlitches } from '../../support/glitches.ts';
import { seededRandom } from '../../support/random.ts';
import { type Arrival, SimulatedRoom } from '../../support/simulated-room.ts';
import { encodeOpus, joinSamples, sweep } from '../../support/sound.ts';

/** Audio sent in pieces, through the pacer, as it is heard in a room: in virtual time. */

const PCM: SampleFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const DURATION_MS = 12_000;
const PACKET_MS = 20;
const AUDIO_LEVEL = 20;
const MADE_UP_AT_END_MS = 62.5;

let codecs: Codecs;
let speech: Buffer[];
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
  speech = await encodeOpus(sweep([400, 1600], 0.3, DURATION_MS));
});

/** The RTP of a sender of pieces of `pieceMs`, each up to `jitterMs` late. */
function paced(pieceMs: number, jitterMs: number): Arrival[] {
  const random = seededRandom(pieceMs);
  const pacer = new Pacer<{
    payload: Buffer;
    durationMs: number;
    isQuiet: boolean;
    isSpare: boolean;
    gapMs: number;
  }>();
  const packetizer = new Packetizer({ sequenceNumber: 1, timestamp: 0 });
  const arrivals: Arrival[] = [];
  const takeAll = (atMs: number) => {
    for (let due = pacer.take(atMs); due; due = pacer.take(atMs)) {
      const gapSamples = Math.round(due.gapMs * 48);
      const packet = packetizer.packetize(due.payload, PACKET_MS * 48, AUDIO_LEVEL, gapSamples);
      arrivals.push({ peer: 'speaker', packet, atMs });
    }
  };
  const perPiece = pieceMs / PACKET_MS;
  let nextPieceMs = 0;
  let pushed = 0;
  for (let tickMs = 0; arrivals.length < speech.length; tickMs += PACKET_MS) {
    for (; nextPieceMs <= tickMs && pushed < speech.length; pushed += perPiece) {
      for (const [i, payload] of speech.slice(pushed, pushed + perPiece).entries()) {
        const packet = { payload, durationMs: PACKET_MS, isQuiet: false, gapMs: 0, isSpare: false };
        pacer.push(packet, nextPieceMs + i * 0.1);
      }
      nextPieceMs = (pushed / perPiece + 1) * pieceMs + random() * jitterMs;
    }
    takeAll(tickMs);
  }
  return arrivals;
}

test.each([
  [20, 0],
  [500, 0],
  [500, 40],
  [1000, 0],
  [1000, 60],
  [2000, 60],
])(
  'pieces of %i ms, up to %i ms late: nothing is lost or repeated, and there is one pause at most',
  async (pieceMs, jitterMs) => {
    const room = new SimulatedRoom(codecs, ['speaker', 'listener', 'other']);
    const [samples, packets] = [
      room.listen('listener', PCM),
      room.listen('other', { codec: 'opus' }),
    ];
    await room.play(paced(pieceMs, jitterMs));
    await room.pause(1000);
    expect(room.faults).toEqual([]);
    expect(packets.frames.map((frame) => frame.toString('hex'))).toEqual(
      speech.map((packet) => packet.toString('hex')),
    );
    const sound = await joinSamples(PCM, samples.frames);
    // The end is loud, and is made to fade.
    const gaps = findGlitches(sound).filter(
      ({ kind, atMs }) => kind === 'gap' && atMs < DURATION_MS,
    );
    expect(gaps.length).toBeLessThanOrEqual(1);
    expect(gaps.filter(({ atMs }) => atMs > 3000)).toEqual([]);
    // The end, and the wait for a later piece by which the delay grows, are pauses: what is made up
    // there is heard and does not count.
    const madeUpMs = sound.length / 48 - DURATION_MS;
    expect(madeUpMs).toBeLessThan(MADE_UP_AT_END_MS + 120 + 30);
    expect(samples.concealedMs).toBeLessThanOrEqual(madeUpMs - MADE_UP_AT_END_MS + 30);
  },
);
