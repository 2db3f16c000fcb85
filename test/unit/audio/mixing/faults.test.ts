import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { FrameClock } from '../../../../src/audio/clock.ts';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import type { AudioFormat } from '../../../../src/audio/format.ts';
import { MixEnginePool } from '../../../../src/audio/mixing/mix-engine-pool.ts';
import { RoomMixer } from '../../../../src/audio/mixing/room-mixer.ts';
import type { OpusDecoder } from '../../../../src/audio/opus-codec.ts';
import { amplitudeOf, joinPcm, opusTone } from '../../../support/sound.ts';

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const CODEC_SETTINGS = { bitrateBps: 48_000, complexity: 5 };
const HZ = { a: 500, b: 900 };
const AMPLITUDE = 0.25;

let codecs: Codecs;
let tones: Record<'a' | 'b', Buffer[]>;
beforeAll(async () => {
  codecs = await loadCodecs(CODEC_SETTINGS);
  tones = {
    a: await opusTone(HZ.a, AMPLITUDE, 1000),
    b: await opusTone(HZ.b, AMPLITUDE, 1000),
  };
});
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const fail = (): never => {
  throw new Error('memory access out of bounds');
};

/** A codec whose first decoder or encoder fails in the middle of a sentence, after 20 frames. */
function failing(what: 'decoder' | 'encoder'): Codecs {
  let [decoders, encoders] = [0, 0];
  const inTime = () => {
    let calls = 0;
    return () => {
      calls += 1;
      if (calls > 20) fail();
    };
  };
  const createDecoder = async (): Promise<OpusDecoder> => {
    const decoder = await codecs.opus.createDecoder();
    decoders += 1;
    if (what !== 'decoder' || decoders > 1) return decoder;
    const check = inTime();
    return {
      decode: (packet) => (check(), decoder.decode(packet)),
      recover: fail,
      conceal: fail,
      // Its memory is gone, too.
      close: fail,
    };
  };
  const createEncoder: Codecs['opus']['createEncoder'] = async (rateHz) => {
    const encoder = await codecs.opus.createEncoder(rateHz);
    encoders += 1;
    if (what !== 'encoder' || encoders > 1) return encoder;
    const check = inTime();
    return { ...encoder, encode: (frame) => (check(), encoder.encode(frame)) };
  };
  return { ...codecs, opus: { ...codecs.opus, createDecoder, createEncoder } };
}

/** Two rooms of one clock and one pool, in each of which a and b talk. */
function openRooms(used: Codecs) {
  const faults: unknown[] = [];
  const onFault = (fault: unknown) => void faults.push(fault);
  const ticks: unknown[] = [];
  const clock = new FrameClock((fault) => ticks.push(fault));
  const pool = new MixEnginePool(0, used, CODEC_SETTINGS, { onFault, onThreadLost: onFault });
  const settings = {
    activeSpeakers: { thresholdLevel: 65, holdMs: 500, maxMixed: 8 },
    jitterBuffer: { minMs: 5, maxMs: 200 },
  };
  const rooms = [0, 1].map(() => {
    const mixer = new RoomMixer(pool, clock, settings, () => {});
    mixer.addSpeaker('a', 1);
    mixer.addSpeaker('b', 2);
    const listen = (peer: string, format: AudioFormat, deliver?: (frame: Buffer) => void) => {
      const frames: Buffer[] = [];
      mixer.addListener({
        peer,
        format,
        delivery: 'mix',
        volume: {},
        deliver: deliver ?? ((frame) => void frames.push(frame)),
        concealed: () => {},
      });
      return frames;
    };
    return { mixer, listen };
  });
  const speak = async (fromFrame: number, frames: number) => {
    for (let frame = fromFrame; frame < fromFrame + frames; frame += 1) {
      for (const { mixer } of rooms) {
        for (const name of ['a', 'b'] as const) {
          const packet = {
            sequenceNumber: frame,
            timestamp: frame * 960,
            marker: false,
            audioLevel: 20,
            payload: tones[name][frame % 50]!,
          };
          mixer.receive(name, packet, performance.now());
        }
      }
      await vi.advanceTimersByTimeAsync(20);
    }
  };
  const close = async () => {
    for (const { mixer } of rooms) mixer.close();
    await pool.close();
  };
  return { rooms, speak, close, faults, ticks };
}

/** Amplitudes of both tones in the last half second that a listener to samples was sent. */
const amplitudes = (frames: Buffer[]) => {
  const sound = joinPcm(frames.slice(-25));
  return { a: amplitudeOf(sound, HZ.a), b: amplitudeOf(sound, HZ.b) };
};

describe('a fault in the tick of one room: told, and every other room goes on', () => {
  test('a decoder that throws in whatever it is asked: its speaker is silent, the other is heard on', async () => {
    const { rooms, speak, close, faults, ticks } = openRooms(failing('decoder'));
    const heard = rooms.map(({ listen }) => listen('x', PCM));
    await speak(0, 100);
    expect(faults).toHaveLength(2);
    expect(ticks).toEqual([]);
    for (const { length } of heard) expect(length).toBeGreaterThan(95);
    expect(amplitudes(heard[0]!).a).toBeLessThan(0.01);
    expect(amplitudes(heard[0]!).b).toBeGreaterThan(0.9 * AMPLITUDE);
    expect(amplitudes(heard[1]!).a).toBeGreaterThan(0.9 * AMPLITUDE);
    // It is heard again when it begins to talk again: with another decoder.
    await vi.advanceTimersByTimeAsync(1000);
    await speak(150, 60);
    expect(amplitudes(heard[0]!).a).toBeGreaterThan(0.9 * AMPLITUDE);
    await close();
  });

  test('an encoder that throws: listeners to samples hear on, and the next plan opens another', async () => {
    const { rooms, speak, close, faults, ticks } = openRooms(failing('encoder'));
    const [opus, samples] = [rooms[0]!.listen('x', OPUS), rooms[0]!.listen('y', PCM)];
    const other = rooms[1]!.listen('x', OPUS);
    await speak(0, 60);
    expect(faults).toHaveLength(1);
    expect(ticks).toEqual([]);
    expect(opus.length).toBeLessThan(30);
    expect(amplitudes(samples).a).toBeGreaterThan(0.9 * AMPLITUDE);
    expect(other.length).toBeGreaterThan(55);
    const before = opus.length;
    rooms[0]!.listen('z', OPUS);
    await speak(60, 40);
    expect(opus.length - before).toBeGreaterThan(35);
    await close();
  });

  test('a listener that throws at each frame: told at each, and the other room goes on', async () => {
    const { rooms, speak, close, faults } = openRooms(codecs);
    rooms[0]!.listen('x', PCM, fail);
    const other = rooms[1]!.listen('x', PCM);
    await speak(0, 50);
    expect(faults.length).toBeGreaterThan(40);
    expect(other.length).toBeGreaterThan(45);
    await close();
  });
});
