import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Application } from 'libopus-wasm';
import { describe, expect, test } from 'vitest';
import { type AudioFormat, formatAudioFormat, parseAudioFormat } from '../../src/audio/format.ts';
import { eventually } from '../support/gateway.ts';
import { findGlitches } from '../support/glitches.ts';
import {
  OPUS,
  PCM,
  energyOf,
  hearAs,
  openRoom,
  powerOf,
  speak,
  toleranceOf,
  undisturbed,
} from '../support/listening.ts';
import {
  amplitudeOf,
  decodeOpus,
  encodeOpus,
  fade,
  opusTone,
  play,
  sampleMessages,
  sampleTone,
  toDb,
  tone,
} from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

const { enter } = useGateway();

const TONE_HZ = 700;
const AMPLITUDE = 0.4;

test.each(['opus', 'pcm_s16le;rate=16000;channels=1'])(
  'speaking (%s): told before 400 ms of a word have been said, and its end soon after it',
  async (audio) => {
    const format = parseAudioFormat(audio);
    const bob = await enter('bob');
    const alice = await enter('alice', { audio });
    const speakersTold = () =>
      bob.messages
        .findLast((message) => message.type === 'speaking')
        ?.peers.map(({ peer }) => peer);
    const messagesOf = async (amplitude: number) =>
      format.codec === 'opus'
        ? opusTone(TONE_HZ, amplitude, 3000)
        : sampleTone(format, TONE_HZ, amplitude, 3000);
    /** Says it until bob is told so, and gives how much of it was said. */
    const sayUntilTold = async (messages: Buffer[], told: string[]) => {
      let sent = 0;
      for (const message of messages) {
        if (isDeepStrictEqual(speakersTold(), told)) break;
        alice.sendAudio(message);
        sent += 1;
        await sleep(20);
      }
      return sent * 20;
    };
    const [loud, silent] = [await messagesOf(AMPLITUDE), await messagesOf(0)];
    expect(await sayUntilTold(loud, ['alice'])).toBeLessThanOrEqual(400);
    expect(await sayUntilTold(silent, [])).toBeLessThanOrEqual(1000);
  },
);

test('with pauses in which next to nothing is sent: every word is heard, and nothing in between', async () => {
  const word = fade(tone(TONE_HZ, AMPLITUDE, 600));
  const silence = new Float32Array(48 * 900);
  // The hiccup of speak() is in here; it is not heard as a word.
  const murmur = tone(TONE_HZ, 0.004, 400);
  const sound = Float32Array.from(
    [murmur, word, silence, word, silence, word, silence].flatMap((part) => [...part]),
  );
  const packets = await encodeOpus(sound, 20, {
    application: Application.Voip,
    dtx: true,
    complexity: 10,
  });
  expect(packets.filter(({ length }) => length <= 2).length).toBeGreaterThan(20);
  const spoken = wordsIn(await decodeOpus(packets));
  const { opus, pcm } = await undisturbed(async (number) => {
    const room = await openRoom(enter, `pauses ${number}`, OPUS);
    await speak(room.speaker, packets);
    await eventually('all is heard', () => room.pcm.frames.length * 20 >= 3 * 600);
    return room;
  });
  for (const [format, frames] of [
    [OPUS, opus.frames],
    [PCM, pcm.frames],
  ] as const) {
    const words = wordsIn(await hearAs(format, frames));
    expect(words).toHaveLength(3);
    for (const [i, heard] of words.entries()) {
      expect(Math.abs(heard.length - spoken[i]!.length) / 48).toBeLessThan(80);
      const levelDb = 10 * Math.log10(energyOf(heard) / energyOf(spoken[i]!));
      expect(Math.abs(levelDb)).toBeLessThan(1.5);
      expect(findGlitches(heard.subarray(1440, -1440))).toEqual([]);
    }
  }
});

/** The stretches of sound between pauses of 60 ms or more. */
function wordsIn(sound: Float32Array): Float32Array[] {
  const words: Float32Array[] = [];
  let [from, quietSamples] = [-1, 0];
  for (const [i, sample] of sound.entries()) {
    const isQuiet = Math.abs(sample) < 0.01;
    quietSamples = isQuiet ? quietSamples + 1 : 0;
    if (!isQuiet && from === -1) from = i;
    if (from === -1 || (quietSamples < 48 * 60 && i < sound.length - 1)) continue;
    words.push(sound.subarray(from, i + 1 - quietSamples));
    from = -1;
  }
  return words;
}

describe('configure, in the middle of a tone', () => {
  test('audio_out and delivery: each stretch is whole, and none is missing or heard twice', async () => {
    const packets = await opusTone(TONE_HZ, AMPLITUDE, 5000);
    const heard = await undisturbed(async (number) => {
      const room = `stretches ${number}`;
      const [alice, bob] = [await enter('alice', { room }), await enter('bob', { room })];
      const spoken = speak(alice, packets);
      const changes = [{ audio_out: formatAudioFormat(PCM) }, { delivery: 'forward' }];
      changes.push({ delivery: 'mix' }, { audio_out: 'opus' });
      for (const [i, change] of changes.entries()) {
        await bob.until('a second more', () => bob.frames.length >= (i + 1) * 48 || undefined);
        await bob.ask({ type: 'configure', ...change }, 'configured');
      }
      await spoken;
      await eventually('all is heard', () => bob.frames.length >= 245);
      return bob.frames;
    });
    const stretches = stretchesOf(heard);
    expect(stretches.map(({ heardAs }) => heardAs)).toEqual([
      'opus',
      'pcm',
      'forward',
      'pcm',
      'opus',
    ]);
    expect(Math.abs(heard.length - 250)).toBeLessThanOrEqual(3);
    for (const [i, { heardAs, frames }] of stretches.entries()) {
      const sound = await hearAs(heardAs === 'pcm' ? PCM : OPUS, frames);
      const settled = sound.subarray(4800);
      const offDb = toDb(amplitudeOf(settled.subarray(0, 24_000), TONE_HZ) / AMPLITUDE);
      // A stretch that begins in the middle of the tone is mixed, and so encoded a second time
      // (decision 81).
      const encodedTwiceDb = i > 0 ? 0.5 : 0;
      expect(Math.abs(offDb)).toBeLessThan(toleranceOf(OPUS) + encodedTwiceDb);
      expect(findGlitches(settled)).toEqual([]);
    }
  });

  test('audio: between two words, and both are heard whole', async () => {
    const word = fade(tone(TONE_HZ, AMPLITUDE, 600));
    const { opus, pcm } = await undisturbed(async (number) => {
      const room = await openRoom(enter, `words ${number}`, OPUS);
      await play(room.speaker, await encodeOpus(word));
      await room.speaker.ask({ type: 'configure', audio: formatAudioFormat(PCM) }, 'configured');
      await play(room.speaker, sampleMessages(PCM, word));
      await eventually('all is heard', () => room.pcm.frames.length * 20 >= 1160);
      return room;
    });
    for (const [format, frames] of [
      [OPUS, opus.frames],
      [PCM, pcm.frames],
    ] as const) {
      const sound = await hearAs(format, frames);
      expect(Math.abs(sound.length / 48 - 1200)).toBeLessThanOrEqual(100);
      for (const half of [sound.subarray(48 * 30, 48 * 570), sound.subarray(48 * 650, 48 * 1160)]) {
        expect(findGlitches(half)).toEqual([]);
        const offDb = toDb(amplitudeOf(half.subarray(4800, 4800 + 19_200), TONE_HZ) / AMPLITUDE);
        expect(Math.abs(offDb)).toBeLessThan(toleranceOf(OPUS));
      }
    }
  });
});

test('configure audio, in the middle of a tone: nobody hears a click', async () => {
  const formats = [
    'opus',
    'pcm_f32le;rate=44100;channels=2',
    'pcmu',
    'pcm_s16le;rate=48000;channels=1',
  ];
  const partMs = 700;
  const lengthMs = formats.length * partMs;
  const { opus, pcm } = await undisturbed(async (number) => {
    const room = await openRoom(enter, `formats ${number}`, OPUS);
    for (const [i, name] of formats.entries()) {
      const format = parseAudioFormat(name);
      const rateHz = format.codec === 'opus' ? 48_000 : format.rateHz;
      const from = (i * partMs * rateHz) / 1000;
      const part = tone(525, AMPLITUDE, (i + 1) * partMs, rateHz).subarray(from);
      if (i > 0) await room.speaker.ask({ type: 'configure', audio: name }, 'configured');
      await play(
        room.speaker,
        format.codec === 'opus' ? await encodeOpus(part) : sampleMessages(format, part),
      );
    }
    await eventually('all is heard', () => room.pcm.frames.length * 20 >= lengthMs - 100);
    return room;
  });
  for (const [format, { frames }] of [
    [OPUS, opus],
    [PCM, pcm],
  ] as const) {
    const sound = (await hearAs(format, frames)).subarray(4800, 48 * (lengthMs - 200));
    expect(findGlitches(sound)).toEqual([]);
    expect(Math.abs(toDb(Math.sqrt(2 * powerOf(sound)) / AMPLITUDE))).toBeLessThan(1);
  }
});

type Stretch = { heardAs: 'opus' | 'pcm' | 'forward'; frames: Buffer[] };

/** Frames in a row that are alike, without the heads of forwarded ones. */
function stretchesOf(frames: Buffer[]): Stretch[] {
  const stretches: Stretch[] = [];
  for (const frame of frames) {
    const heardAs = frame.length === 1920 ? 'pcm' : frame[0] === 1 ? 'forward' : 'opus';
    const payload = heardAs === 'forward' ? frame.subarray(4) : frame;
    const last = stretches.at(-1);
    if (last?.heardAs === heardAs) last.frames.push(payload);
    else stretches.push({ heardAs, frames: [payload] });
  }
  return stretches;
}

test.each<AudioFormat>([OPUS, PCM, { codec: 'pcmu', rateHz: 8000, channels: 1 }])(
  'the onset of a burst, sent as %o, is heard before 100 ms more have been said',
  async (format) => {
    const [murmurHz, burstHz, onsetMs] = [300, 1500, 1000];
    const rateHz = format.codec === 'opus' ? 48_000 : format.rateHz;
    const murmur = tone(murmurHz, 0.05, 1600, rateHz);
    const burst = tone(burstHz, 0.4, 600, rateHz);
    murmur.set(
      burst.map((sample, i) => sample + murmur[i]!),
      (onsetMs * rateHz) / 1000,
    );
    const messages =
      format.codec === 'opus' ? await encodeOpus(murmur) : sampleMessages(format, murmur);
    const { opus, pcm, saidMs } = await undisturbed(async (number) => {
      const room = await openRoom(enter, `onset ${number}`, format);
      const said: Record<'opus' | 'pcm', number[]> = { opus: [], pcm: [] };
      for (const [i, message] of messages.entries()) {
        await play(room.speaker, [message]);
        for (const name of ['opus', 'pcm'] as const) {
          while (said[name].length < room[name].frames.length) said[name].push(i * 20);
        }
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return { opus: room.opus, pcm: room.pcm, saidMs: said };
    });
    for (const [name, heardAs, { frames }] of [
      ['opus', OPUS, opus],
      ['pcm', PCM, pcm],
    ] as const) {
      const sound = await hearAs(heardAs, frames);
      const onset = sound.findIndex((sample) => Math.abs(sample) > 0.15);
      const heardAtMs = saidMs[name][Math.floor(onset / 960)]!;
      expect(onset).toBeGreaterThan(0);
      expect(heardAtMs - onsetMs).toBeLessThanOrEqual(100);
    }
  },
);
