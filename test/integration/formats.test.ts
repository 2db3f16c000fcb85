import { beforeAll, describe, expect, test } from 'vitest';
import {
  type AudioFormat,
  formatAudioFormat,
  parseAudioFormat,
  type SampleFormat,
} from '../../src/audio/format.ts';
import type { ServerMessage } from '../../src/protocol/messages.ts';
import type { TestClient } from '../support/client.ts';
import { oggOpus, webmOpus } from '../support/containers.ts';
import {
  cutInto,
  levelOverSpeechDb,
  likenessInPieces,
  readFixture,
  SPEECH,
  SPEECH_RATE_HZ,
} from '../support/fixtures.ts';
import { eventually } from '../support/gateway.ts';
import { imaAdpcm } from '../support/ima-adpcm.ts';
import {
  describeTone,
  ENOUGH_MS,
  forgetHeard,
  HEARD_WITHIN_MS,
  hearAs,
  OPUS,
  openRoom,
  PCM,
  undisturbed,
  untilHeard,
} from '../support/listening.ts';
import { seededRandom } from '../support/random.ts';
import {
  amplitudeOf,
  decodeOpus,
  joinSamples,
  opusTone,
  peakHz,
  play,
  sampleMessages,
  sampleTone,
  toDb,
} from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/**
 * Statistics come five times as often as by default, and pings in time for them. A client that is too fast is closed sooner, but after more
 * than the 3 s at which it is told `xoff` at the latest.
 */
const { connect, enter } = useGateway(
  {},
  { sessions: { statsEveryMs: 1000, beatEveryMs: 100 }, budgets: { tooFastAfterMs: 4000 } },
);

const AMPLITUDE = 0.4;
const TONE_HZ = 700;

const toneIn = async (format: AudioFormat, durationMs: number) =>
  format.codec === 'opus'
    ? opusTone(TONE_HZ, AMPLITUDE, durationMs)
    : sampleTone(format, TONE_HZ, AMPLITUDE, durationMs);

const heardBy = ({ frames }: TestClient, format: AudioFormat) => hearAs(format, frames);

/** The level of most tenths of a second, in decibels of the tone as sent: one that a busy machine sends late is stretched, so that the sum over all of it is less. */
const usualLevelDb = (heard: Float32Array) => {
  const levels = Array.from({ length: heard.length / 4800 }, (_, i) =>
    toDb(amplitudeOf(heard.subarray(i * 4800, (i + 1) * 4800), TONE_HZ) / AMPLITUDE),
  );
  return levels.toSorted((one, other) => one - other)[Math.floor(levels.length / 2)]!;
};

function expectTone(heard: Float32Array): void {
  expect(peakHz(heard)).toBe(TONE_HZ);
  expect(Math.abs(usualLevelDb(heard))).toBeLessThan(1);
}

/** A second of what was heard, when codecs have settled. */
const settled = (samples: Float32Array) => samples.subarray(14_400, 14_400 + 48_000);

describe('a tone through the gateway, with no format declared', () => {
  const formats = [
    'opus',
    'pcmu',
    'pcma',
    'pcm_s16le;rate=8000;channels=1',
    'pcm_s16le;rate=16000;channels=1',
    'pcm_s16le;rate=44100;channels=2',
    'pcm_s16le;rate=48000;channels=1',
    'pcm_f32le;rate=22050;channels=1',
    'pcm_f32le;rate=48000;channels=2',
  ];

  test('sent in each format: detected, and heard by Opus and PCM listeners', async () => {
    const tones = await Promise.all(formats.map((name) => toneIn(parseAudioFormat(name), 1600)));
    // Each in a room of its own, all at once.
    const rooms = await undisturbed((number) =>
      Promise.all(
        formats.map(async (name, i) => {
          const { speaker, opus, pcm } = await openRoom(enter, `${name} ${number}`, 'auto');
          await play(speaker, tones[i]!);
          await untilHeard('all that is judged', () =>
            [opus, pcm].every(({ frames }) => frames.length * 20 >= ENOUGH_MS),
          );
          return { name, speaker, opus, pcm };
        }),
      ),
    );
    for (const { name, speaker, opus, pcm } of rooms) {
      expect(await speaker.next('audio_detected')).toMatchObject({ in: name, out: name });
      expectTone(settled(await heardBy(opus, OPUS)));
      expectTone(settled(await heardBy(pcm, PCM)));
      expect(speaker.frames).toEqual([]);
    }
  });

  test('sent in messages of 60, 100 and 150 ms: what was said while it was found out is heard too', async () => {
    const format: SampleFormat = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 };
    // Another tone in each 100 ms, so that it is heard what is missing.
    const tonesHz = Array.from({ length: 15 }, (_, i) => 500 + 100 * i);
    const said = [
      ...tonesHz.map((hz) => sampleTone(format, hz, AMPLITUDE, 100)),
      sampleTone(format, 2500, AMPLITUDE, 600),
    ];
    const bytes = Buffer.concat(said.flat());
    const missing = async (messageMs: number, attempt: number) => {
      const room = `${messageMs} ms ${attempt}`;
      const { speaker, pcm } = await openRoom(enter, room, 'auto');
      const messageBytes = (messageMs * format.rateHz * 2) / 1000;
      const messages = Array.from({ length: Math.floor(bytes.length / messageBytes) }, (_, i) =>
        bytes.subarray(i * messageBytes, (i + 1) * messageBytes),
      );
      await play(speaker, messages, undefined, messageMs);
      await untilHeard('all frames', () => pcm.frames.length >= 90);
      const heard = await joinSamples(PCM, pcm.frames);
      const levels = tonesHz.map((hz) => amplitudeOf(heard, hz));
      const loudest = Math.max(...levels);
      return tonesHz.filter((_, i) => levels[i]! < loudest / 2);
    };
    const inAll = await undisturbed((number) =>
      Promise.all([60, 100, 150].map((messageMs) => missing(messageMs, number))),
    );
    expect(inAll).toEqual([[], [], []]);
  });

  test('sent as ogg_opus and webm_opus in messages cut anywhere: detected, and heard', async () => {
    const packets = await opusTone(TONE_HZ, AMPLITUDE, 1800);
    const containers = {
      ogg_opus: oggOpus(packets, 20, { packetsPerPage: 1 }),
      webm_opus: webmOpus(packets, 20, { packetsPerCluster: 1 }),
    };
    const hear = async ([name, pages]: [string, Buffer[]], attempt: number) => {
      const { speaker, opus } = await openRoom(enter, `${name} ${attempt}`, 'auto');
      const stream = Buffer.concat(pages);
      const chunkBytes = Math.ceil(stream.length / 90);
      const cut = Array.from({ length: 90 }, (_, index) =>
        stream.subarray(index * chunkBytes, (index + 1) * chunkBytes),
      );
      await play(speaker, cut);
      const told = await speaker.next('audio_detected', 0, HEARD_WITHIN_MS);
      await untilHeard('most frames', () => opus.frames.length >= 78);
      return { name, told, frames: [...opus.frames] };
    };
    const rooms = await undisturbed((number) =>
      Promise.all(Object.entries(containers).map((each) => hear(each, number))),
    );
    for (const { name, told, frames } of rooms) {
      expect(told).toMatchObject({ in: name, out: 'opus' });
      expectTone(settled(await decodeOpus(frames)));
    }
  });

  test('declared as ogg_opus or webm_opus, but something else: refused with a word of why', async () => {
    const samples = sampleTone({ codec: 'pcm_s16le', rateHz: 48_000, channels: 1 }, 500, 0.5, 400);
    const refusal = async (name: string) => {
      const client = await enter(name, { audio: name });
      await play(client, samples);
      return client.next('error');
    };
    const unsupported = expect.objectContaining({ code: 'unsupported_audio' }) as unknown;
    const refusals = await Promise.all(['ogg_opus', 'webm_opus'].map(refusal));
    expect(refusals).toEqual([unsupported, unsupported]);
  });

  test('heard by those that speak each format: in the format in which they speak', async () => {
    const alice = await enter('alice');
    const listeners = await Promise.all(
      formats.map(async (name) => {
        const format = parseAudioFormat(name);
        const client = await enter(name, { audio: 'auto' });
        // Too quiet to count as talk, but not silent. One encoder makes it, however often it is
        // recorded: the beginning of such a tone behind its end is not taken for Opus.
        const murmur =
          format.codec === 'opus'
            ? await opusTone(200, 0.0002, 6000)
            : sampleTone(format, 200, format.codec === 'pcmu' ? 0.002 : 0.0005, 6000);
        return { name, format, client, murmur };
      }),
    );
    // While the machine stalls, a format can be recognized later by the pace of what comes.
    await undisturbed((number) => {
      const part = (murmur: Buffer[]) => murmur.slice(30 * (number - 1), 30 * number);
      return Promise.all(listeners.map(({ client, murmur }) => play(client, part(murmur))));
    });
    for (const { name, client } of listeners) {
      expect(await client.next('audio_detected')).toMatchObject({ in: name });
    }
    const tone = await opusTone(TONE_HZ, AMPLITUDE, 1600);
    const recordings = await undisturbed(async () => {
      await forgetHeard(listeners.map(({ client }) => client));
      await play(alice, tone);
      for (const { client } of listeners) {
        await untilHeard('all frames', () => client.frames.length >= 76);
      }
      return listeners.map(({ client }) => [...client.frames]);
    });
    for (const [i, { format }] of listeners.entries()) {
      // If packets as sent take over from a mix that had to wait for one, a tone continues in
      // another phase.
      const heard = await describeTone(format, recordings[i]!);
      expect(heard).toMatchObject({ tone: 'pure', level: 'right' });
    }
  });
});

describe('speech through the gateway', () => {
  const random = seededRandom(18);
  const noise = Buffer.from(Uint8Array.from({ length: 83_200 }, () => Math.floor(random() * 256)));
  const MESSAGES = 130;
  const PCM_16_KHZ: SampleFormat = { codec: 'pcm_s16le', rateHz: SPEECH_RATE_HZ, channels: 1 };
  const cut = (bytes: Buffer) => cutInto(bytes, [2 * Math.ceil(bytes.length / MESSAGES / 2)]);

  type Sent = { name: string; audio: string; messages: Buffer[] };
  const undeclared = (name: string, bytes: Buffer): Sent => ({
    name,
    audio: 'auto',
    messages: cut(bytes),
  });
  /** Sender, and the format that it hears. */
  type Decoded = Sent & { out: string };
  const COMPRESSED: Decoded[] = [
    { ...undeclared('wav', readFixture('speech.wav')), out: formatAudioFormat(PCM_16_KHZ) },
    { ...undeclared('mp3', readFixture('speech.mp3')), out: 'opus' },
    { ...undeclared('aac_adts', readFixture('speech.aac')), out: 'opus' },
    { ...undeclared('mp4_aac', readFixture('speech.mp4')), out: 'opus' },
    { ...undeclared('flac', readFixture('speech.flac')), out: 'opus' },
    { ...undeclared('ogg_flac', readFixture('speech.oga')), out: 'opus' },
    { ...undeclared('ogg_vorbis', readFixture('speech-48000.ogg')), out: 'opus' },
    { ...undeclared('g722', readFixture('speech.g722')), out: 'g722' },
  ];
  const sampleFormats = (['pcm_s16be', 'pcm_u8', 'pcm_s24le', 'pcm_s32le'] as const).map(
    (codec) => ({ codec, rateHz: SPEECH_RATE_HZ, channels: 1 }),
  );
  const DECLARED: Decoded[] = sampleFormats.map((format) => {
    const name = formatAudioFormat(format);
    return { name, audio: name, messages: sampleMessages(format, SPEECH), out: name };
  });
  const UNDECLARED: Decoded[] = sampleFormats.map((format) => {
    const name = formatAudioFormat(format);
    // Speech of 16 bits in 32: the lower half of each sample is zero, as in two channels.
    const out = format.codec === 'pcm_s32le' ? 'pcm_s16le;rate=16000;channels=2' : name;
    return { name, audio: 'auto', messages: sampleMessages(format, SPEECH), out };
  });
  const UNKNOWN = [
    undeclared('IMA ADPCM', imaAdpcm(SPEECH)),
    undeclared('random bytes', noise),
    undeclared('Ogg with Speex', readFixture('speech.spx')),
  ];
  /** Packets of 20 ms of 2.6 s of speech, in which there are pauses. */
  const LEAST_PACKETS = 95;

  const hear = async (room: string, { name, audio, messages }: Sent, leastPackets: number) => {
    const inRoom = (peer: string, format: string) =>
      enter(`${peer} ${room}`, { room, audio: format });
    const [speaker, opus, pcm] = await Promise.all([
      inRoom('speaker', audio),
      inRoom('opus', 'opus'),
      inRoom('pcm', formatAudioFormat(PCM_16_KHZ)),
    ]);
    await play(speaker, messages);
    const expected = leastPackets > 0 ? 'audio_detected' : 'audio_unknown';
    const type = audio === 'auto' ? expected : 'welcome';
    await speaker.next(type, 0, HEARD_WITHIN_MS);
    await untilHeard(`most of ${name}`, () =>
      [opus, pcm].every(({ frames }) => frames.length >= leastPackets),
    );
    // A WAVE file is told once more when its head has been read.
    const told = speaker.messages.findLast((message) => message.type === type)!;
    return { told, opus: opus.frames, pcm: pcm.frames };
  };
  /** Lets all speak at once, each in a room of its own. */
  const hearEach = (sent: Sent[], leastPackets: number) =>
    undisturbed((number) =>
      Promise.all(
        sent.map((each) => hear(`${each.audio} ${each.name} ${number}`, each, leastPackets)),
      ),
    );

  test.each([
    { what: 'compressed or a file', senders: COMPRESSED },
    { what: 'samples that are declared', senders: DECLARED },
    { what: 'samples that are not declared', senders: UNDECLARED },
  ])('$what: is heard as it was recorded', async ({ senders }) => {
    const decoded = await hearEach(senders, LEAST_PACKETS);
    for (const [i, { told, opus, pcm }] of decoded.entries()) {
      const { name, audio, out } = senders[i]!;
      const detected = name.startsWith('pcm_') ? out : name;
      expect('audio' in told ? told.audio : told).toMatchObject({ in: detected, out });
      for (const sound of [await decodeOpus(opus), await joinSamples(PCM_16_KHZ, pcm)]) {
        const offDb = levelOverSpeechDb(sound);
        const likeness = likenessInPieces(sound);
        const isRight = Math.abs(offDb) < 3 && likeness > 0.7;
        const heard = `${name} as ${audio}: ${offDb} dB, likeness ${likeness}`;
        expect({ heard, isRight }).toEqual({ heard, isRight: true });
      }
    }
  });

  test('in an unknown format: is not heard', async () => {
    for (const { told, opus, pcm } of await hearEach(UNKNOWN, 0)) {
      expect(told).toMatchObject({ relayed: true });
      expect([opus, pcm]).toEqual([[], []]);
    }
  });
});

test('a declared format that the bytes contradict: format_mismatch says what they are', async () => {
  const alice = await enter('alice', { audio: 'pcm_s16le;rate=16000;channels=1' });
  await play(alice, sampleTone({ codec: 'pcmu', rateHz: 8000, channels: 1 }, 500, 0.3, 1500));
  expect(await alice.next('format_mismatch')).toMatchObject({
    declared: 'pcm_s16le;rate=16000;channels=1',
    observed: 'pcmu',
  });
});

describe('digital silence first', () => {
  test('at a pace usual for 16 bits: answered by that guess, and found out when the sound begins', async () => {
    const format = { codec: 'pcm_f32le', rateHz: 24_000, channels: 1 } as const;
    const { guess, found, frames } = await undisturbed(async (number) => {
      const { speaker: legacy, opus: bob } = await openRoom(enter, `silence ${number}`, 'auto');
      await play(legacy, Array<Buffer>(40).fill(Buffer.alloc(1920)));
      const first = await legacy.next('audio_detected', 0, HEARD_WITHIN_MS);
      const from = legacy.messages.length;
      await play(legacy, sampleTone(format, TONE_HZ, AMPLITUDE, 1600));
      const second = await legacy.next('audio_detected', from, HEARD_WITHIN_MS);
      return { guess: first, found: second, frames: bob.frames };
    });
    expect(guess).toMatchObject({ in: 'pcm_s16le;rate=48000;channels=1' });
    expect(found).toMatchObject({ in: formatAudioFormat(format) });
    expect(peakHz(settled(await decodeOpus(frames)))).toBe(TONE_HZ);
  });

  test('that may be of either width: hears nothing, which might be noise to it, until the sound begins', async () => {
    const [silence, before, after] = [
      Array<Buffer>(150).fill(Buffer.alloc(3840)),
      await opusTone(TONE_HZ, AMPLITUDE, 3000),
      await opusTone(TONE_HZ, AMPLITUDE, 1600),
    ];
    const hear = async (format: SampleFormat, attempt: number) => {
      const room = `${format.codec} ${attempt}`;
      const { speaker: legacy, opus: bob } = await openRoom(enter, room, 'auto');
      // A client that has sent nothing yet hears the room.
      await play(legacy, silence.slice(0, 3));
      await Promise.all([play(legacy, silence.slice(3)), play(bob, before)]);
      const tooEarly = legacy.frames.length;
      await Promise.all([
        play(legacy, sampleTone(format, 1000, AMPLITUDE, 1600)),
        play(bob, after),
      ]);
      return { format, legacy, tooEarly };
    };
    const heard = await undisturbed((number) =>
      Promise.all([
        hear({ codec: 'pcm_f32le', rateHz: 48_000, channels: 1 }, number),
        hear({ codec: 'pcm_s16le', rateHz: 48_000, channels: 2 }, number),
      ]),
    );
    for (const { format, legacy, tooEarly } of heard) {
      expect(tooEarly).toBe(0);
      expect(await legacy.next('audio_detected')).toMatchObject({ in: formatAudioFormat(format) });
      const sound = await joinSamples(format, legacy.frames);
      expect(sound.length / 48).toBeGreaterThan(500);
      expect(peakHz(sound.subarray(-19_200))).toBe(TONE_HZ);
      expect(Math.max(...sound)).toBeLessThan(1.2 * AMPLITUDE);
    }
  });
});

describe('configure', () => {
  describe('as recorded', () => {
    const PLACES = ['in a room', 'behind a join'] as const;
    const RECORDINGS = ['webm_opus', 'auto'] as const;
    const PCMA: SampleFormat = { codec: 'pcma', rateHz: 8000, channels: 1 };

    let tone: Buffer[];
    let recorded: Awaited<ReturnType<typeof recordAll>>;
    beforeAll(async () => {
      tone = await opusTone(TONE_HZ, AMPLITUDE, 1600);
      recorded = await undisturbed(recordAll);
    });

    /** Records what is judged below, each in rooms of its own, all at once. */
    async function recordAll(attempt: number) {
      const [change, together, recordings, volume, mute] = await Promise.all([
        recordChange(inRoom(`change ${attempt}`)),
        Promise.all(PLACES.map((place) => recordTogether(`${place} ${attempt}`, place))),
        Promise.all(
          RECORDINGS.map((audio) => recordRecording(inRoom(`${audio} ${attempt}`), audio)),
        ),
        recordVolume(inRoom(`volume ${attempt}`), `volume ${attempt}`),
        recordMute(inRoom(`mute ${attempt}`)),
      ]);
      return { change, together, recordings, volume, mute };
    }

    /** Enters peers of a room, whose names are their own in all rooms. */
    const inRoom =
      (room: string) =>
      (peer: string, query: Record<string, string> = {}) =>
        enter(`${peer} ${room}`, { room, ...query });
    type Enter = ReturnType<typeof inRoom>;

    async function recordChange(enterRoom: Enter) {
      const [alice, bob] = [await enterRoom('alice'), await enterRoom('bob')];
      await play(alice, tone.slice(0, 15));
      const configured = await alice.ask(
        { type: 'configure', audio: 'pcma', id: '7' },
        'configured',
      );
      const from = bob.frames.length;
      await play(alice, sampleTone(PCMA, TONE_HZ, AMPLITUDE, 1600));
      await untilHeard('all frames', () => bob.frames.length - from >= 75);
      return { configured, frames: bob.frames.slice(from) };
    }

    async function recordTogether(room: string, place: (typeof PLACES)[number]) {
      const isThere = place === 'in a room';
      const bob = await inRoom(room)('bob');
      const first = isThere ? room : '__lobby__';
      const alice = await connect({ peer: `alice ${room}`, room: first, audio: 'opus' });
      await alice.next(isThere ? 'joined' : 'welcome');
      const before = isThere ? [] : [{ type: 'join', room }];
      const samples = sampleTone(PCM, TONE_HZ, AMPLITUDE, 1600);
      const configure = { type: 'configure', audio: formatAudioFormat(PCM) };
      alice.sendTogether([...before, configure, ...samples.slice(0, 5)]);
      await play(alice, samples.slice(5));
      await untilHeard('all frames', () => bob.frames.length >= 79);
      return { frames: bob.frames, told: alice.messages };
    }

    async function recordRecording(enterRoom: Enter, audio: (typeof RECORDINGS)[number]) {
      const bob = await enterRoom('bob', { delivery: 'forward' });
      const alice = await enterRoom('alice', { audio });
      const pieces = cutInto(Buffer.concat(webmOpus(tone, 20)), [100]);
      const half = Math.floor(pieces.length / 2);
      const everyMs = 1600 / pieces.length;
      await play(alice, pieces.slice(0, half), undefined, everyMs);
      alice.send({ type: 'configure', audio, mute: false });
      await play(alice, pieces.slice(half), undefined, everyMs);
      await untilHeard('all packets', () => bob.frames.length >= tone.length);
      return { frames: bob.frames, told: alice.messages };
    }

    async function recordVolume(enterRoom: Enter, room: string) {
      const alice = await enterRoom('alice');
      const [bob, carol] = [await enterRoom('bob'), await enterRoom('carol')];
      await bob.ask({ type: 'configure', volume: { [`alice ${room}`]: 0.5 } }, 'configured');
      await carol.ask({ type: 'configure', volume: { [`alice ${room}`]: 0 } }, 'configured');
      await play(alice, tone);
      await untilHeard('all frames', () => bob.frames.length >= 76);
      return { softer: bob.frames, notAtAll: carol.frames };
    }

    async function recordMute(enterRoom: Enter) {
      const [alice, bob] = [await enterRoom('alice'), await enterRoom('bob')];
      await alice.ask({ type: 'configure', mute: true }, 'configured');
      await play(alice, tone.slice(0, 20));
      await alice.ask({ type: 'configure', mute: false }, 'configured');
      const muted = [...bob.frames];
      await play(alice, tone);
      // Packets after the mute lean on packets that were withheld: they are heard as a mix.
      await untilHeard('all frames', () => bob.frames.length >= tone.length);
      return { muted, after: bob.frames };
    }

    test('audio: what is sent from then on is taken as said', async () => {
      const { configured, frames } = recorded.change;
      expect(configured).toMatchObject({
        audio: { in: 'pcma', out: 'pcma', delivery: 'mix' },
        reply_to: '7',
      });
      expect(peakHz(settled(await decodeOpus(frames)))).toBe(TONE_HZ);
    });

    test.each(PLACES.map((place, i) => [place, i] as const))(
      'audio: what arrives in one piece with it is taken as said, %s',
      async (_place, i) => {
        const { frames, told } = recorded.together[i]!;
        expect(peakHz(settled(await decodeOpus(frames)))).toBe(TONE_HZ);
        expect(told.filter(({ type }) => type === 'error')).toEqual([]);
      },
    );

    test.each(RECORDINGS.map((audio, i) => [audio, i] as const))(
      'audio=%s, in the middle of a recording that was declared so: it goes on',
      (_audio, i) => {
        const { frames, told } = recorded.recordings[i]!;
        expect(frames.map((frame) => frame.subarray(4))).toEqual(tone);
        expect(told.filter(({ type }) => /error|audio_unknown/.test(type))).toEqual([]);
      },
    );

    test('volume: one speaker louder, softer or not at all, for this listener alone', async () => {
      const { softer, notAtAll } = recorded.volume;
      expect(usualLevelDb(settled(await decodeOpus(softer)))).toBeCloseTo(-6, 0);
      expect(notAtAll).toEqual([]);
    });

    test('mute: nothing of the peer is heard until it is taken back', async () => {
      const { muted, after } = recorded.mute;
      expect(muted).toEqual([]);
      const sound = settled(await decodeOpus(after));
      expect(usualLevelDb(sound)).toBeCloseTo(0, 0);
      // The beginning is where a decoder or a mix would still lean on what was muted.
      const firstDb = toDb(amplitudeOf(sound.subarray(0, 4800), TONE_HZ) / AMPLITUDE);
      expect(Math.abs(firstDb)).toBeLessThan(1);
    });
  });

  test.each([
    [{ audio: 'amr' }, 'unsupported_audio', 'ogg_opus, webm_opus'],
    [{ audio_out: 'webm_opus' }, 'unsupported_audio', 'Unknown audio format'],
    [{ delivery: 'broadcast' }, 'bad_message', 'one of mix, forward'],
    [{ volume: { alice: -1 } }, 'bad_message', 'configure: volume'],
    [{ mute: 'yes' }, 'bad_message', 'configure: mute must be boolean'],
    [{}, 'bad_message', 'audio, audio_out, delivery, volume, mute'],
    [{ volumes: {} }, 'bad_message', 'audio, audio_out, delivery, volume, mute'],
  ])('%o: refused, and nothing is changed', async (changes, code, reason) => {
    const alice = await enter('alice', { audio: 'pcmu' });
    const error = await alice.ask({ type: 'configure', ...changes }, 'error');
    expect(error).toMatchObject({ code, message: expect.stringContaining(reason) });
    const { audio } = await alice.ask({ type: 'configure', mute: false }, 'configured');
    expect(audio).toEqual({ in: 'pcmu', out: 'pcmu', delivery: 'mix' });
  });
});

describe('faster than real time', () => {
  test('twice as fast: told to wait, and closed with 4422', async () => {
    const alice = await enter('alice');
    const tone = await opusTone(TONE_HZ, AMPLITUDE, 1000);
    const stopped = new AbortController();
    void alice.closed.then(() => stopped.abort());
    for (let i = 0; i < 13 && !stopped.signal.aborted; i += 1) {
      await play(alice, tone, stopped.signal, 10);
    }
    expect(await alice.next('flow')).toMatchObject({ state: 'xoff' });
    expect(await alice.closed).toBe(4422);
  });

  test('told to wait, and then in another room: told to go on before joined', async () => {
    const alice = await enter('alice');
    const tone = await opusTone(TONE_HZ, AMPLITUDE, 1000);
    for (let i = 0; i < 4; i += 1) for (const packet of tone) alice.sendAudio(packet);
    expect(await alice.next('flow')).toMatchObject({ state: 'xoff' });
    await alice.ask({ type: 'join', room: 'elsewhere' }, 'joined');
    const joined = alice.messages.findLastIndex(({ type }) => type === 'joined');
    expect(alice.messages[joined - 1]).toMatchObject({ type: 'flow', state: 'xon' });
  });

  test('four seconds at once, and then at its pace: told to wait and to go on, and not closed', async () => {
    const tone = await opusTone(TONE_HZ, AMPLITUDE, 1000);
    const { xoff, xon } = await undisturbed(async (number) => {
      const inRoom = (peer: string) => enter(`${peer} ${number}`, { room: `at once ${number}` });
      const [alice, bob] = [await inRoom('alice'), await inRoom('bob')];
      for (let i = 0; i < 4; i += 1) for (const packet of tone) alice.sendAudio(packet);
      const first = await alice.next('flow', 0, HEARD_WITHIN_MS);
      const isXon = (message: ServerMessage) => message.type === 'flow' && message.state === 'xon';
      const second = await alice.until('xon', () => alice.messages.find(isXon), HEARD_WITHIN_MS);
      const from = bob.frames.length;
      await play(alice, tone);
      await untilHeard('all frames', () => bob.frames.length - from >= tone.length);
      return { xoff: first, xon: second };
    });
    expect(xoff).toMatchObject({ state: 'xoff' });
    expect(xon).toMatchObject({ dropped_ms: expect.toSatisfy((ms: number) => ms > 1000) });
  });
});

test('stats=true: how the audio fares, again and again', async () => {
  const tone = await opusTone(TONE_HZ, AMPLITUDE, 2000);
  const stats = await undisturbed(async (number) => {
    const alice = await enter(`alice ${number}`, { stats: 'true', room: `stats ${number}` });
    const bob = await enter(`bob ${number}`, { room: `stats ${number}` });
    await play(bob, tone);
    return alice.next('stats');
  });
  expect(stats).toEqual({
    type: 'stats',
    ingest_ms: 0,
    drift_ppm: 0,
    dropped_ms: 0,
    concealed_ms: 0,
    send_queue_ms: 0,
    rtt_ms: expect.any(Number) as number,
  });
});

test('stats=true of who sends four seconds at once: what was left out, in the first and still in the next', async () => {
  const alice = await enter('alice', { stats: 'true', audio: 'opus' });
  for (const packet of await opusTone(TONE_HZ, AMPLITUDE, 4000)) alice.sendAudio(packet);
  const isStats = ({ type }: { type: string }) => type === 'stats';
  await eventually('two of them', () => alice.messages.filter(isStats).length >= 2);
  const [first, second] = alice.messages.filter((message) => message.type === 'stats');
  expect(first!.dropped_ms).toBeGreaterThanOrEqual(1000);
  expect(first!.dropped_ms).toBeLessThanOrEqual(2000);
  expect(second!.dropped_ms).toBe(first!.dropped_ms);
});
