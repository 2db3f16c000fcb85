import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../../../src/audio/format.ts';
import { MixEnginePool } from '../../../../src/audio/mixing/mix-engine-pool.ts';
import { RoomMixer } from '../../../../src/audio/mixing/room-mixer.ts';
import type { Listener } from '../../../../src/audio/mixing/subscriptions.ts';
import { opusPacketSamples } from '../../../../src/audio/opus-packet.ts';
import { HandClock } from '../../../support/simulated-room.ts';
import { amplitudeOf, encodeOpus, joinPcm, opusTone, tone } from '../../../support/sound.ts';

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };

const CODEC_SETTINGS = { bitrateBps: 48_000, complexity: 5 };

let codecs: Codecs;
let tones: Record<string, Buffer[]>;
beforeAll(async () => {
  codecs = await loadCodecs(CODEC_SETTINGS);
  tones = {
    a: await opusTone(500, 0.25, 1000),
    b: await opusTone(900, 0.25, 1000),
    c: await opusTone(1700, 0.25, 1000),
  };
});

/** Codecs whose Opus encoders count the frames that they encode. */
function countingCodecs() {
  const encoded = { frames: 0 };
  const createEncoder: Codecs['opus']['createEncoder'] = async (rateHz) => {
    const encoder = await codecs.opus.createEncoder(rateHz);
    const encode = (frame: Float32Array) => {
      encoded.frames += 1;
      return encoder.encode(frame);
    };
    return { ...encoder, encode };
  };
  return { encoded, counting: { ...codecs, opus: { ...codecs.opus, createEncoder } } };
}

/** A room of speakers, and of listeners whose frames are kept. */
async function openMixer(speakers: string[], used = codecs) {
  const clock = new HandClock();
  const faults: unknown[] = [];
  const mixer = new RoomMixer(
    new MixEnginePool(0, used, CODEC_SETTINGS, {
      onFault: (fault) => faults.push(fault),
      onThreadLost: (reason) => faults.push(reason),
    }),
    clock,
    {
      activeSpeakers: { thresholdLevel: 65, holdMs: 500, maxMixed: 8 },
      jitterBuffer: { minMs: 5, maxMs: 200 },
    },
    () => {},
  );
  for (const [i, name] of speakers.entries()) {
    mixer.addSpeaker(name, i + 1);
  }
  const listen = (
    peer: string,
    format: AudioFormat,
    delivery: Delivery = 'mix',
    others: Pick<Listener, 'only' | 'takesShortOnly'> = {},
  ) => {
    const frames: Buffer[] = [];
    const listener = {
      peer,
      format,
      delivery,
      ...others,
      volume: {},
      deliver: (frame: Buffer) => frames.push(frame),
      concealed: () => {},
    };
    mixer.addListener(listener);
    return { frames, listener };
  };
  /** 20 ms of the room: a packet of each that speaks, and 10 ms later the tick. */
  const run = async (frame: number, names: string[], audioLevel = 20) => {
    for (const name of names) {
      mixer.receive(name, rtp(frame, tones[name]![frame % 50]!, audioLevel), frame * 20);
    }
    await new Promise(setImmediate);
    clock.tick(frame * 20 + 10);
  };
  return { mixer, clock, listen, run, faults };
}

const rtp = (frame: number, payload: Buffer, audioLevel: number) => ({
  ssrc: 1,
  sequenceNumber: frame,
  timestamp: frame * 960,
  payloadType: 100,
  marker: false,
  audioLevel,
  payload,
});

describe('RoomMixer', () => {
  test('of more than eight that have talked, the packets of the last ones go on in their pauses', async () => {
    const names = ['1', '2', '3', '4', '5', '6', '7', '8', '9', '10'];
    const { mixer, clock, listen, faults } = await openMixer(names);
    const forward = listen('x', OPUS, 'forward');
    let frame = 0;
    const sent = new Map<string, number>();
    const run = (name: string, frames: number, level: number) => {
      for (const end = frame + frames; frame < end; frame += 1) {
        const number = sent.get(name) ?? 0;
        sent.set(name, number + 1);
        mixer.receive(name, rtp(number, tones['a']![number % 50]!, level), frame * 20);
        clock.tick(frame * 20 + 10);
      }
    };
    for (const name of names) {
      run(name, 10, 20);
      run(name, 40, 127);
    }
    // Each new listener is a new plan.
    for (let i = 0; i < 10; i += 1) listen(`y${i}`, OPUS);
    forward.frames.length = 0;
    for (const name of names.slice(2)) run(name, 1, 127);
    expect(forward.frames.length).toBe(8);
    expect(faults).toEqual([]);
  });

  test('bytes from a browser that are no Opus packet are sent to nobody', async () => {
    const { mixer, listen } = await openMixer(['a']);
    const heard = [listen('x', OPUS), listen('y', OPUS, 'forward')];
    mixer.receive('a', rtp(0, Buffer.of(0x7b, 0), 20), 0);
    mixer.receive('a', rtp(1, tones['a']![1]!, 20), 20);
    const [mixed, apart] = heard.map(({ frames }) => frames);
    expect(mixed).toEqual([tones['a']![1]]);
    expect(apart).toHaveLength(1);
  });

  test('one talker: Opus listeners get its very packets, at once and without a decode', async () => {
    const { mixer, listen } = await openMixer(['a']);
    const heard = listen('x', OPUS);
    const packet = tones['a']![0]!;
    mixer.receive('a', rtp(0, packet, 20), 0);
    expect(heard.frames).toEqual([packet]);
    expect(heard.frames[0]).toBe(packet);
    mixer.close();
  });

  test.each(['constructor', 'toString', '__proto__'])(
    'a talker that is called %s is heard',
    async (name) => {
      tones[name] = tones['a']!;
      const { mixer, listen, run } = await openMixer([name]);
      const { frames } = listen('x', OPUS);
      for (let frame = 0; frame < 10; frame += 1) await run(frame, [name]);
      expect(frames).toHaveLength(10);
      mixer.close();
    },
  );

  test('no peer hears itself', async () => {
    const { mixer, listen, run } = await openMixer(['a']);
    const self = [listen('a', OPUS), listen('a', PCM), listen('a', OPUS, 'forward')];
    for (let frame = 0; frame < 10; frame += 1) await run(frame, ['a']);
    expect(self.map(({ frames }) => frames.length)).toEqual([0, 0, 0]);
    mixer.close();
  });

  test('two talkers: each gets the other’s packets untouched, the silent share one mix', async () => {
    const { mixer, listen, run } = await openMixer(['a', 'b']);
    const [a, b] = [listen('a', OPUS), listen('b', OPUS)];
    const [x, y] = [listen('x', OPUS), listen('y', OPUS)];
    for (let frame = 0; frame < 20; frame += 1) await run(frame, ['a', 'b']);
    expect(a.frames.length).toBeGreaterThanOrEqual(18);
    expect(a.frames).toEqual(tones['b']!.slice(0, a.frames.length));
    expect(b.frames.length).toBeGreaterThanOrEqual(18);
    expect(b.frames).toEqual(tones['a']!.slice(0, b.frames.length));
    expect(x.frames.length).toBeGreaterThan(15);
    for (const [i, frame] of x.frames.slice(1).entries()) expect(y.frames[i + 1]).toBe(frame);
    mixer.close();
  });

  test('all that do not speak share one encode, be they players of WHEP or clients on WebSockets', async () => {
    const { encoded, counting } = countingCodecs();
    const { mixer, listen, run } = await openMixer(['a', 'b'], counting);
    // As WhipPeer adds them.
    const players = Array.from({ length: 100 }, (_, i) =>
      listen(`player ${i}`, OPUS, 'mix', { only: undefined, takesShortOnly: i % 2 === 0 }),
    );
    const clients = [listen('x', OPUS), listen('y', OPUS)];
    for (let frame = 0; frame < 5; frame += 1) await run(frame, ['a', 'b']);
    encoded.frames = 0;
    for (let frame = 5; frame < 25; frame += 1) await run(frame, ['a', 'b']);
    expect(encoded.frames).toBe(20);
    const heard = new Set([...players, ...clients].map(({ frames }) => frames.at(-1)));
    expect(heard.size).toBe(1);
    mixer.close();
  });

  test('three talkers on PCM: the mix of each is the sum of the others', async () => {
    const { mixer, listen, run } = await openMixer(['a', 'b', 'c']);
    const heard = {
      a: listen('a', PCM),
      b: listen('b', PCM),
      c: listen('c', PCM),
      x: listen('x', PCM),
    };
    for (let frame = 0; frame < 50; frame += 1) await run(frame, ['a', 'b', 'c']);
    const levels = (name: keyof typeof heard) => {
      const samples = joinPcm(heard[name].frames).subarray(9600, 43_200);
      return [500, 900, 1700].map((toneHz) => amplitudeOf(samples, toneHz));
    };
    const loud = expect.closeTo(0.25, 1);
    const silent = expect.closeTo(0, 2);
    expect(levels('a')).toEqual([silent, loud, loud]);
    expect(levels('b')).toEqual([loud, silent, loud]);
    expect(levels('c')).toEqual([loud, loud, silent]);
    expect(levels('x')).toEqual([loud, loud, loud]);
    mixer.close();
  });

  test('ten talk at once, and eight are mixed: everybody has a frame at every tick', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `speaker ${index}`);
    for (const name of names) tones[name] = tones['a']!;
    const { mixer, listen, run, faults } = await openMixer(names);
    const listeners = [...names, 'silent'].map((name) => listen(name, OPUS));
    for (let frame = 0; frame < 100; frame += 1) {
      for (const [index, name] of names.entries()) {
        // Syllables, each speaker's at another time: who is loudest changes all the time.
        const audioLevel =
          30 + Math.round(25 * Math.sin(2 * Math.PI * (frame / 12.5 + index / 10)));
        mixer.receive(name, rtp(frame, tones[name]![frame % 50]!, audioLevel), frame * 20);
      }
      await run(frame, []);
    }
    for (const { frames } of listeners) expect(frames.length).toBeGreaterThanOrEqual(97);
    expect(faults).toEqual([]);
    mixer.close();
  });

  test('silence costs nothing: nothing is sent, and the clock stands still', async () => {
    const { mixer, clock, listen, run } = await openMixer(['a', 'b']);
    const [x, forward] = [listen('x', OPUS), listen('y', OPUS, 'forward')];
    for (let frame = 0; frame < 5; frame += 1) await run(frame, ['a', 'b'], 127);
    expect([x.frames.length, forward.frames.length, clock.isRunning]).toEqual([0, 0, false]);
    await run(5, ['a']);
    expect(clock.isRunning).toBe(true);
    clock.tick(5 * 20 + 600);
    expect(clock.isRunning).toBe(false);
    mixer.close();
  });

  test('a talker that comes back after a pause is heard from its first packet', async () => {
    const { mixer, clock, listen, run } = await openMixer(['a', 'b']);
    const x = listen('x', PCM);
    for (let frame = 0; frame < 10; frame += 1) await run(frame, ['a', 'b']);
    clock.tick(2000);
    const before = x.frames.length;
    for (let frame = 200; frame < 220; frame += 1) await run(frame, ['a', 'b']);
    expect(x.frames.length - before).toBeGreaterThanOrEqual(19);
    mixer.close();
  });

  test('removeSpeaker() in the middle of a mix leaves the others heard', async () => {
    const { mixer, listen, run } = await openMixer(['a', 'b', 'c']);
    const x = listen('x', PCM);
    for (let frame = 0; frame < 10; frame += 1) await run(frame, ['a', 'b', 'c']);
    mixer.removeSpeaker('b');
    x.frames.length = 0;
    for (let frame = 10; frame < 50; frame += 1) await run(frame, ['a', 'c']);
    const samples = joinPcm(x.frames).subarray(9600);
    expect(amplitudeOf(samples, 900)).toBeLessThan(0.01);
    expect(amplitudeOf(samples, 500)).toBeCloseTo(0.25, 1);
    mixer.close();
  });

  test('a packet that does not decode is concealed, and what follows is heard', async () => {
    const { mixer, listen, run } = await openMixer(['a']);
    const x = listen('x', PCM);
    for (let frame = 0; frame < 10; frame += 1) await run(frame, ['a']);
    mixer.receive('a', rtp(10, Buffer.from([0xff]), 20), 200);
    for (let frame = 11; frame < 40; frame += 1) await run(frame, ['a']);
    expect(amplitudeOf(joinPcm(x.frames).subarray(-9600), 500)).toBeCloseTo(0.25, 1);
    mixer.close();
  });

  test.each([0, 100])(
    'packets that become longer than 20 ms after %i of them: a listener that takes short ones only is sent none of them',
    async (shortPackets) => {
      const { mixer, clock, listen, faults } = await openMixer(['a']);
      const short = listen('x', OPUS, 'mix', { takesShortOnly: true });
      const long = await encodeOpus(tone(500, 0.25, 1200), 60);
      let timestamp = 0;
      const stream = [...tones['a']!, ...tones['a']!].slice(0, shortPackets);
      for (const [sequenceNumber, payload] of [...stream, ...long].entries()) {
        const samples = opusPacketSamples(payload)!;
        const packet = { sequenceNumber, timestamp, marker: false, audioLevel: 20, payload };
        mixer.receive('a', packet, timestamp / 48);
        for (const end = timestamp + samples; timestamp < end; timestamp += 960) {
          await new Promise(setImmediate);
          clock.tick(timestamp / 48 + 10);
        }
      }
      const longest = Math.max(...short.frames.map((frame) => opusPacketSamples(frame)!));
      expect(longest).toBe(960);
      expect(short.frames.length).toBeGreaterThanOrEqual(shortPackets + 55);
      expect(faults).toEqual([]);
      mixer.close();
    },
  );

  test('packets that were withheld by a mute are sent to nobody if their speaker leaves before the next tick', async () => {
    const { mixer, clock, listen, run, faults } = await openMixer(['a', 'b']);
    const heard = [listen('b', OPUS), listen('x', OPUS), listen('y', OPUS, 'forward')];
    for (let frame = 0; frame < 20; frame += 1) await run(frame, ['a', 'b']);
    const withheld = tones['a']!.slice(20, 29);
    for (const [i, payload] of withheld.entries()) {
      mixer.receive('a', rtp(20 + i, payload, 20), 20 * 20, true);
    }
    mixer.removeSpeaker('a');
    clock.tick(20 * 20 + 10);
    for (let frame = 21; frame < 25; frame += 1) await run(frame, ['b']);
    for (const { frames } of heard) {
      const isWithheld = (frame: Buffer) =>
        withheld.some((payload) => frame.subarray(-payload.length).equals(payload));
      expect(frames.filter(isWithheld).length).toBe(0);
    }
    expect(faults).toEqual([]);
    mixer.close();
  });

  test('a listener that was removed is sent nothing of a speaker that leaves with it', async () => {
    const { mixer, clock, listen, run } = await openMixer(['a', 'b']);
    const { frames, listener } = listen('b', OPUS);
    // Hears a mix, at whose pace packets of its speakers are forwarded.
    listen('x', OPUS);
    for (let frame = 0; frame < 20; frame += 1) await run(frame, ['a', 'b']);
    for (const frame of [20, 21, 22])
      mixer.receive('a', rtp(frame, tones['a']![frame]!, 20), 20 * 20);
    mixer.removeSpeaker('a');
    mixer.removeListener(listener);
    const before = frames.length;
    clock.tick(20 * 20 + 10);
    await run(21, ['b']);
    expect(frames.length).toBe(before);
    mixer.close();
  });

  test('of more than 20 listeners with volumes, earlier ones keep theirs when they subscribe anew, and when they change them', async () => {
    const { mixer, listen, run } = await openMixer(['a', 'b']);
    const limited = new Set<string>();
    let listeners: Listener[] = [];
    const update = (i: number, volume: Listener['volume']) => {
      const { peer, ...before } = listeners[i]!;
      const after = { ...before, peer, volume, volumeLimited: () => void limited.add(peer) };
      mixer.updateListener(listeners[i]!, after);
      listeners[i] = after;
    };
    listeners = Array.from({ length: 22 }, (_, i) => listen(`x${i}`, PCM).listener);
    // The last one has no volumes until all others have theirs.
    for (let i = 1; i <= 20; i += 1) update(i, { a: 0, b: i / 40 });
    update(0, { a: 0.5 });
    for (let frame = 0; frame < 10; frame += 1) await run(frame, ['a', 'b']);
    expect([...limited]).toEqual(['x0']);
    update(1, { a: 0, b: 1 / 40 });
    update(2, { a: 0.25 });
    await run(10, ['a', 'b']);
    expect([...limited]).toEqual(['x0']);
    mixer.removeListener(listeners[1]!);
    limited.clear();
    for (let frame = 11; frame < 20; frame += 1) await run(frame, ['a', 'b']);
    expect([...limited]).toEqual([]);
    mixer.close();
  });

  test('close() stops the clock, and can be called twice', async () => {
    const { mixer, clock, run, faults } = await openMixer(['a']);
    await run(0, ['a']);
    mixer.close();
    mixer.close();
    expect(clock.isRunning).toBe(false);
    expect(faults).toEqual([]);
  });
});
