import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../../src/audio/format.ts';
import { carriesCopy } from '../../../src/audio/opus-packet.ts';
import { decodeLossy } from '../../support/decode-lossy.ts';
import { type HeardPiece, windowErrors } from '../../support/heard-words.ts';
import { seededRandom } from '../../support/random.ts';
import { SENDERS, sayTrack } from '../../support/senders.ts';
import { type Arrival, SimulatedRoom, soundOf } from '../../support/simulated-room.ts';
import { spokenTrack } from '../../support/speech.ts';

/** Speech of a browser whose network loses packets; its packets carry copies of those before them (in-band FEC). */

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const NOTHING = new Float32Array();
/** Longer than the network counts as lossy after its last loss. */
const WITHOUT_LOSS_MS = 9000;
/** A new speaker is heard as sent after its first pause. */
const LOSSLESS_MS = 6000;

let codecs: Codecs;
let said: Awaited<ReturnType<typeof sayTrack>>;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const track = await spokenTrack({ words: 28, pauseMs: 200 });
  said = await sayTrack(codecs, 'a', SENDERS.browser, track);
});

/** Loses a share of what comes within some time. */
function lose(arrivals: Arrival[], share: number, fromMs = 400, toMs = Infinity): Arrival[] {
  const random = seededRandom(5);
  return arrivals.filter(
    ({ atMs }) => random() >= share || atMs < fromMs || atMs >= toMs || atMs === 0,
  );
}

async function hear(arrivals: Arrival[], format: AudioFormat, delivery?: Delivery) {
  const room = new SimulatedRoom(codecs, ['a']);
  const heard = room.listen('x', format, delivery);
  await room.play(arrivals);
  room.mixer.close();
  const pieces = await soundOf(codecs, heard);
  const lengthMs = pieces.reduce((sum, { sound }) => sum + sound.length / 48, 0);
  return { asSent: asSentOf(pieces), lengthMs, heard };
}

/** Returns the share of windows that sound as sent. */
function asSentOf(pieces: HeardPiece[]): number {
  const errors = windowErrors(said.reference, pieces, said.words, NOTHING);
  return errors.filter((error) => Math.abs(error) < 3).length / errors.length;
}

describe.each([0.05, 0.3])('%f of the packets lost', (share) => {
  test('heard as samples: as much sounds as it was sent as libopus alone can save', async () => {
    const arrivals = lose(said.arrivals, share);
    const { asSent } = await hear(arrivals, PCM);
    expect(asSent).toBeGreaterThan(asSentOf(await decodeLossy(codecs, arrivals)) - 0.01);
  });

  test.each([['mix'], ['forward']] as const)(
    'heard as Opus (%s): as much as in samples sounds as it was sent, and none of the time is missing',
    async (delivery) => {
      const arrivals = lose(said.arrivals, share);
      const samples = await hear(arrivals, PCM);
      const { asSent, lengthMs } = await hear(arrivals, OPUS, delivery);
      // The first losses, from which it is known, are heard as empty packets.
      expect(asSent).toBeGreaterThan(samples.asSent - 0.03);
      const lossless = await hear(said.arrivals, OPUS, delivery);
      expect(Math.abs(lengthMs - lossless.lengthMs)).toBeLessThanOrEqual(60);
    },
  );
});

test('when nothing is lost any more, packets go out as they are again', async () => {
  const lastMs = said.arrivals.at(-1)!.atMs;
  const arrivals = lose(said.arrivals, 0.1, LOSSLESS_MS, lastMs - WITHOUT_LOSS_MS);
  const { heard } = await hear(arrivals, OPUS);
  const sent = new Set(said.arrivals.map(({ packet }) => packet.payload));
  const untouched = heard.frames.map((frame) => sent.has(frame));
  const lossyFrom = LOSSLESS_MS / 20;
  expect(untouched.slice(lossyFrom - 50, lossyFrom)).not.toContain(false);
  expect(untouched.slice(lossyFrom + 50, lossyFrom + 100)).not.toContain(true);
  expect(untouched.slice(-50)).not.toContain(false);
});

test.each([5, 6, 10])(
  'after %i packets were lost in a row, the last of them is played from its copy',
  async (burst) => {
    const copiesIn: Buffer[] = [];
    const createDecoder = async () => {
      const decoder = await codecs.opus.createDecoder();
      const recover = (next: Buffer, samples: number) => {
        copiesIn.push(next);
        return decoder.recover(next, samples);
      };
      return { ...decoder, recover };
    };
    const watched: Codecs = { ...codecs, opus: { ...codecs.opus, createDecoder } };
    const after = said.arrivals.findIndex(
      ({ packet }, i) => i > 200 && carriesCopy(packet.payload),
    );
    // Losses before show that copies are worth waiting for.
    const isLost = (i: number) =>
      (i >= after - burst && i < after) || (i > 20 && i < after - burst - 8 && i % 8 === 4);
    const room = new SimulatedRoom(watched, ['a']);
    room.listen('x', PCM);
    await room.play(said.arrivals.filter((_, i) => !isLost(i)));
    room.mixer.close();
    expect(copiesIn).toContain(said.arrivals[after]!.packet.payload);
  },
);

test.each(['as is', 'in words only'])(
  'a stream without losses that is sent %s: nothing counts as concealed',
  async (how) => {
    const track = await spokenTrack({ words: 4, pauseMs: 1300, noiseDb: -90 });
    const { arrivals } = await sayTrack(codecs, 'a', SENDERS.dtx, track);
    const isNear = (atMs: number) =>
      track.words.some(
        ({ fromSample, samples }) =>
          atMs >= fromSample / 48 - 60 && atMs < (fromSample + samples) / 48 + 60,
      );
    const sent = arrivals
      .filter(({ packet, atMs }) => (how === 'as is' ? packet.payload.length > 2 : isNear(atMs)))
      .map((arrival, i) => ({ ...arrival, packet: { ...arrival.packet, sequenceNumber: i + 1 } }));
    expect(sent.length).toBeLessThan(arrivals.length - 100);
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', PCM);
    await room.play(sent);
    await room.pause(2000);
    room.mixer.close();
    expect(heard.concealedMs).toBe(0);
  },
);
