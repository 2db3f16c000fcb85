import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import {
  type AudioFormat,
  formatAudioFormat,
  parseAudioFormat,
} from '../../../src/audio/format.ts';
import { AudioInput } from '../../../src/audio/ingest/input.ts';
import { SoundBudget } from '../../../src/audio/ingest/sound-budget.ts';
import { FORMATS } from '../../support/corpus.ts';
import {
  AMPLITUDE,
  AS_SENT,
  describeTone,
  ENOUGH_MS,
  OPUS,
  PCM,
  TONE_HZ,
  TONE_MS,
} from '../../support/listening.ts';
import { SimulatedRoom, streamOf } from '../../support/simulated-room.ts';
import { opusTone, sampleTone } from '../../support/sound.ts';

/** Every format, sent and heard in a room in virtual time. */

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Formats of samples beside those that are found out by detection. */
const DECLARED = [
  'g722',
  ...['pcm_s16be', 'pcm_u8', 'pcm_s24le', 'pcm_s32le'].flatMap((codec) => [
    `${codec};rate=8000;channels=2`,
    `${codec};rate=48000;channels=1`,
  ]),
].map(parseAudioFormat);

const named = [...FORMATS, ...DECLARED].map(
  (format) => [formatAudioFormat(format), format] as const,
);

/** The Opus packets that the gateway makes of a tone in a format. */
async function packetsOf(format: AudioFormat): Promise<Buffer[]> {
  if (format.codec === 'opus') return opusTone(TONE_HZ, AMPLITUDE, TONE_MS);
  const packets: Buffer[] = [];
  const faults: unknown[] = [];
  const input = new AudioInput(
    format,
    codecs,
    { sink: (packet) => packets.push(packet), sound: new SoundBudget() },
    {
      onDetected: () => {},
      onOpaque: () => {},
      onMismatch: (observed) => faults.push(observed),
      onFault: (fault) => faults.push(fault),
    },
  );
  for (const [i, message] of sampleTone(format, TONE_HZ, AMPLITUDE, TONE_MS).entries()) {
    input.push(message, i * 20);
  }
  // Codecs open asynchronously, and then read all that was pushed meanwhile.
  await vi.waitFor(() => expect(packets.length).toBeGreaterThan(TONE_MS / 20 - 3), 10_000);
  input.close();
  expect(faults).toEqual([]);
  return packets;
}

describe('a tone in a simulated room', () => {
  test.each(named)(
    'sent as %s is heard at its frequency and level, without a glitch',
    async (_, format) => {
      const room = new SimulatedRoom(codecs, ['speaker']);
      const [opus, pcm] = [room.listen('opus', OPUS), room.listen('pcm', PCM)];
      await room.play(streamOf('speaker', await packetsOf(format)));
      await room.pause(100);
      expect(pcm.frames.length * 20).toBeGreaterThanOrEqual(ENOUGH_MS);
      expect(await describeTone(OPUS, opus.frames)).toEqual(AS_SENT);
      expect(await describeTone(PCM, pcm.frames)).toEqual(AS_SENT);
    },
  );

  test.each(named)(
    'heard as %s is at its frequency and level, without a glitch',
    async (_, format) => {
      const room = new SimulatedRoom(codecs, ['speaker']);
      const listener = room.listen('listener', format);
      await room.play(streamOf('speaker', await packetsOf(OPUS)));
      await room.pause(100);
      expect(listener.frames.length * 20).toBeGreaterThanOrEqual(ENOUGH_MS);
      expect(await describeTone(format, listener.frames)).toEqual(AS_SENT);
    },
  );
});
