import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Application } from 'libopus-wasm';
import { beforeAll, describe, expect, test } from 'vitest';
import { type AudioFormat, formatAudioFormat, parseAudioFormat } from '../../src/audio/format.ts';
import type { TestClient } from '../support/client.ts';
import { findGlitches } from '../support/glitches.ts';
import {
  HEARD_WITHIN_MS,
  OPUS,
  PCM,
  hearAs,
  openRoom,
  powerOf,
  speak,
  toleranceOf,
  undisturbed,
  untilHeard,
  untilPause,
} from '../support/listening.ts';
import {
  amplitudeOf,
  energyOf,
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

/** Sound in which the hiccup of {@link speak} falls; it is not heard as a word. */
const MURMUR = tone(TONE_HZ, 0.004, 400);

/** Two words with pauses around them, in which next to nothing is sent. */
async function sayPauses(): Promise<Buffer[]> {
  const word = fade(tone(TONE_HZ, AMPLITUDE, 600));
  const silence = new Float32Array(48 * 900);
  const sound = Float32Array.from(
    [MURMUR, word, silence, word, silence, word, silence].flatMap((part) => [...part]),
  );
  return encodeOpus(sound, 20, { application: Application.Voip, dtx: true, complexity: 10 });
}

async function hearPauses(packets: Buffer[], attempt: number) {
  const room = await openRoom(enter, `pauses ${attempt}`, OPUS);
  await speak(room.speaker, packets);
  await untilHeard('all is heard', () => room.pcm.frames.length * 20 >= 3 * 600);
  return room;
}

const STEADY_MS = 5000;
/** Samples at the ends of a tone that are softer, and a few more. */
const FADE_SAMPLES = 48 * 30;

/** A tone, and a silence after it: nothing is missing at its end, which the mixer would conceal. */
const saySteadyTone = () => {
  const sound = new Float32Array(48 * (STEADY_MS + 400));
  sound.set(fade(tone(TONE_HZ, AMPLITUDE, STEADY_MS)));
  return encodeOpus(sound);
};

/** A tone whose listener changes how it hears in the middle of it, four times. */
async function hearStretches(packets: Buffer[], attempt: number): Promise<Buffer[]> {
  const room = `stretches ${attempt}`;
  const [alice, bob] = [
    await enter(`alice ${attempt}`, { room }),
    await enter(`bob ${attempt}`, { room }),
  ];
  const spoken = speak(alice, packets);
  const changes = [{ audio_out: formatAudioFormat(PCM) }, { delivery: 'forward' }];
  changes.push({ delivery: 'mix' }, { audio_out: 'opus' });
  for (const [i, change] of changes.entries()) {
    const isSecondMore = () => bob.frames.length >= (i + 1) * 48 || undefined;
    await bob.until('a second more', isSecondMore, HEARD_WITHIN_MS);
    await bob.ask({ type: 'configure', ...change }, 'configured');
  }
  await spoken;
  await untilHeard('all is heard', () => bob.frames.length >= 245);
  await untilPause([bob]);
  return bob.frames;
}

type Note = (waitedMs: number) => void;

/** Has a speaker send another format from now on. The time until the answer is heard as a pause. */
async function changeFormat(speaker: TestClient, audio: string, note: Note): Promise<void> {
  const askedAtMs = performance.now();
  await speaker.ask({ type: 'configure', audio }, 'configured');
  note(performance.now() - askedAtMs);
}

/** A word as Opus, and the same word as samples. */
async function hearTwoFormats(word: Float32Array, attempt: number, note: Note) {
  const packets = await encodeOpus(Float32Array.from([...MURMUR, ...word]));
  const room = await openRoom(enter, `words ${attempt}`, OPUS);
  await speak(room.speaker, packets);
  await changeFormat(room.speaker, formatAudioFormat(PCM), note);
  await play(room.speaker, sampleMessages(PCM, word));
  const heard = [room.opus, room.pcm];
  await untilHeard('all is heard', () => heard.every(({ frames }) => frames.length * 20 >= 1160));
  await untilPause(heard);
  return room;
}

const FORMATS_OF_TONE = [
  'opus',
  'pcm_f32le;rate=44100;channels=2',
  'pcmu',
  'pcm_s16le;rate=48000;channels=1',
];
const PART_MS = 700;
const ALL_PARTS_MS = FORMATS_OF_TONE.length * PART_MS;

type Parts = Awaited<ReturnType<typeof sayParts>>;

/** Parts of one tone, each in another format. */
const sayParts = () =>
  Promise.all(
    FORMATS_OF_TONE.map(async (name, i) => {
      const format = parseAudioFormat(name);
      const rateHz = format.codec === 'opus' ? 48_000 : format.rateHz;
      const from = (i * PART_MS * rateHz) / 1000;
      const part = tone(525, AMPLITUDE, (i + 1) * PART_MS, rateHz).subarray(from);
      const messages =
        format.codec === 'opus' ? await encodeOpus(part) : sampleMessages(format, part);
      return { name, messages };
    }),
  );

async function hearParts(parts: Parts, attempt: number, note: Note) {
  const room = await openRoom(enter, `formats ${attempt}`, OPUS);
  for (const [i, { name, messages }] of parts.entries()) {
    if (i > 0) await changeFormat(room.speaker, name, note);
    await play(room.speaker, messages);
  }
  await untilHeard('all is heard', () => room.pcm.frames.length * 20 >= ALL_PARTS_MS - 100);
  return room;
}

const FORMATS_OF_BURST: AudioFormat[] = [OPUS, PCM, { codec: 'pcmu', rateHz: 8000, channels: 1 }];
const ONSET_MS = 1000;

/** A murmur, and after a second a burst over it. */
async function sayBurst(format: AudioFormat): Promise<Buffer[]> {
  const [murmurHz, burstHz] = [300, 1500];
  const rateHz = format.codec === 'opus' ? 48_000 : format.rateHz;
  const murmur = tone(murmurHz, 0.05, 1600, rateHz);
  const burst = tone(burstHz, 0.4, 600, rateHz);
  murmur.set(
    burst.map((sample, i) => sample + murmur[i]!),
    (ONSET_MS * rateHz) / 1000,
  );
  return format.codec === 'opus' ? encodeOpus(murmur) : sampleMessages(format, murmur);
}

/** Records also how much had been said when each frame was heard. */
async function hearBurst(format: AudioFormat, messages: Buffer[], attempt: number) {
  const name = `onset ${formatAudioFormat(format)} ${attempt}`;
  const { speaker, opus, pcm } = await openRoom(enter, name, format);
  const saidMs: Record<'opus' | 'pcm', number[]> = { opus: [], pcm: [] };
  for (const [i, message] of messages.entries()) {
    await play(speaker, [message]);
    for (const [of, { frames }] of [
      ['opus', opus],
      ['pcm', pcm],
    ] as const) {
      while (saidMs[of].length < frames.length) saidMs[of].push(i * 20);
    }
    await sleep(20);
  }
  return { opus, pcm, saidMs };
}

describe('said in rooms of their own, all at once', () => {
  const word = fade(tone(TONE_HZ, AMPLITUDE, 600));
  let pauses: Buffer[];
  let heard: Awaited<ReturnType<typeof hearAll>>;
  beforeAll(async () => {
    pauses = await sayPauses();
    const steady = await saySteadyTone();
    const parts = await sayParts();
    const bursts = await Promise.all(FORMATS_OF_BURST.map(sayBurst));
    heard = await undisturbed((number, note) => hearAll(steady, parts, bursts, number, note));
  });

  async function hearAll(
    steady: Buffer[],
    parts: Parts,
    bursts: Buffer[][],
    attempt: number,
    note: Note,
  ) {
    const [inPauses, stretches, twoFormats, inParts, ofBursts] = await Promise.all([
      hearPauses(pauses, attempt),
      hearStretches(steady, attempt),
      hearTwoFormats(word, attempt, note),
      hearParts(parts, attempt, note),
      Promise.all(bursts.map((burst, i) => hearBurst(FORMATS_OF_BURST[i]!, burst, attempt))),
    ]);
    return { inPauses, stretches, twoFormats, inParts, ofBursts };
  }

  test('with pauses in which next to nothing is sent: every word is heard, and nothing in between', async () => {
    expect(pauses.filter(({ length }) => length <= 2).length).toBeGreaterThan(20);
    const spoken = wordsIn(await decodeOpus(pauses));
    const { opus, pcm } = heard.inPauses;
    for (const [format, frames] of [
      [OPUS, opus.frames],
      [PCM, pcm.frames],
    ] as const) {
      const words = wordsIn(await hearAs(format, frames));
      expect(words).toHaveLength(3);
      for (const [i, sound] of words.entries()) {
        expect(Math.abs(sound.length - spoken[i]!.length) / 48).toBeLessThan(80);
        const levelDb = 10 * Math.log10(energyOf(sound) / energyOf(spoken[i]!));
        expect(Math.abs(levelDb)).toBeLessThan(1.5);
        expect(findGlitches(sound.subarray(FADE_SAMPLES, -FADE_SAMPLES))).toEqual([]);
      }
    }
  });

  test('configure audio_out and delivery, in the middle of a tone: each stretch is whole, and none is missing or heard twice', async () => {
    const stretches = stretchesOf(heard.stretches);
    expect(stretches.map(({ heardAs }) => heardAs)).toEqual([
      'opus',
      'pcm',
      'forward',
      'pcm',
      'opus',
    ]);
    const sounds = await Promise.all(
      stretches.map(({ heardAs, frames }) => hearAs(heardAs === 'pcm' ? PCM : OPUS, frames)),
    );
    sounds.push(withoutQuietEnds(sounds.pop()!));
    const heardMs = sounds.reduce((sum, { length }) => sum + length / 48, 0);
    expect(Math.abs(heardMs - STEADY_MS)).toBeLessThanOrEqual(60);
    for (const [i, sound] of sounds.entries()) {
      const isLast = i === sounds.length - 1;
      const settled = sound.subarray(4800, isLast ? -FADE_SAMPLES : undefined);
      const offDb = toDb(amplitudeOf(settled.subarray(0, 24_000), TONE_HZ) / AMPLITUDE);
      // A stretch that begins in the middle of the tone is mixed, and so encoded a second time
      // (decision 81).
      const encodedTwiceDb = i > 0 ? 0.5 : 0;
      expect(Math.abs(offDb)).toBeLessThan(toleranceOf(OPUS) + encodedTwiceDb);
      expect(findGlitches(settled)).toEqual([]);
    }
  });

  test('configure audio, between two words: both are heard whole', async () => {
    const { opus, pcm } = heard.twoFormats;
    for (const [format, frames] of [
      [OPUS, opus.frames],
      [PCM, pcm.frames],
    ] as const) {
      const sound = withoutQuietEnds(await hearAs(format, frames));
      // The pause between the words is as long as the answer to `configure` took.
      expect(Math.abs(sound.length / 48 - 1200)).toBeLessThanOrEqual(100);
      for (const heardWord of [sound.subarray(0, 48 * 600), sound.subarray(-48 * 600)]) {
        const inner = heardWord.subarray(FADE_SAMPLES, -FADE_SAMPLES);
        expect(findGlitches(inner)).toEqual([]);
        const offDb = toDb(amplitudeOf(inner.subarray(4800, 4800 + 19_200), TONE_HZ) / AMPLITUDE);
        expect(Math.abs(offDb)).toBeLessThan(toleranceOf(OPUS));
      }
    }
  });

  test('configure audio, in the middle of a tone: nobody hears a click', async () => {
    const { opus, pcm } = heard.inParts;
    for (const [format, { frames }] of [
      [OPUS, opus],
      [PCM, pcm],
    ] as const) {
      const sound = (await hearAs(format, frames)).subarray(4800, 48 * (ALL_PARTS_MS - 200));
      expect(findGlitches(sound)).toEqual([]);
      expect(Math.abs(toDb(Math.sqrt(2 * powerOf(sound)) / AMPLITUDE))).toBeLessThan(1);
    }
  });

  test.each(FORMATS_OF_BURST.map((format, i) => [formatAudioFormat(format), i] as const))(
    'the onset of a burst, sent as %s, is heard before 100 ms more have been said',
    async (_name, i) => {
      const { opus, pcm, saidMs } = heard.ofBursts[i]!;
      for (const [name, heardAs, { frames }] of [
        ['opus', OPUS, opus],
        ['pcm', PCM, pcm],
      ] as const) {
        const sound = await hearAs(heardAs, frames);
        const onset = sound.findIndex((sample) => Math.abs(sample) > 0.15);
        const heardAtMs = saidMs[name][Math.floor(onset / 960)]!;
        expect(onset).toBeGreaterThan(0);
        expect(heardAtMs - ONSET_MS).toBeLessThanOrEqual(100);
      }
    },
  );
});

/** Below this nothing is part of a word. */
const QUIET = 0.01;

function withoutQuietEnds(sound: Float32Array): Float32Array {
  const isLoud = (sample: number) => Math.abs(sample) >= QUIET;
  return sound.subarray(sound.findIndex(isLoud), sound.findLastIndex(isLoud) + 1);
}

/** The stretches of sound between pauses of 60 ms or more. */
function wordsIn(sound: Float32Array): Float32Array[] {
  const words: Float32Array[] = [];
  let [from, quietSamples] = [-1, 0];
  for (const [i, sample] of sound.entries()) {
    const isQuiet = Math.abs(sample) < QUIET;
    quietSamples = isQuiet ? quietSamples + 1 : 0;
    if (!isQuiet && from === -1) from = i;
    if (from === -1 || (quietSamples < 48 * 60 && i < sound.length - 1)) continue;
    words.push(sound.subarray(from, i + 1 - quietSamples));
    from = -1;
  }
  return words;
}

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
