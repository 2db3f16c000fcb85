import { describe, expect, test } from 'vitest';
import { formatAudioFormat, isSamples, parseAudioFormat } from '../../src/audio/format.ts';
import { frameBytesOf } from '../../src/audio/samples.ts';
import { cutInto, readFixture } from '../support/fixtures.ts';
import { eventually } from '../support/gateway.ts';
import { hearAs } from '../support/listening.ts';
import { opusTone, peakHz, play, sampleTone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';
import { wavFile } from '../support/wav.ts';

/** The format in which clients hear that send files and have asked for no format. */

const { openRedis, openGateway, createAccount, connect } = useStack();

const FILES = {
  mp3: 'speech.mp3',
  aac_adts: 'speech.aac',
  mp4_aac: 'speech.mp4',
  flac: 'speech.flac',
  ogg_flac: 'speech.oga',
  ogg_vorbis: 'speech-48000.ogg',
};
const TONE_HZ = 1000;
const TONE_FRAMES = 40;
/** Frames that a tone settles for, and those after it that are judged. */
const FIRST_JUDGED = 5;
const LAST_JUDGED = 30;

type Sender = { name: string; audio: string; messages: Buffer[] };

/** Opens an account, and lets each sender hear a tone in a room of its own, all at once. */
async function hearEach<T extends Sender>(senders: T[], extra: { default_audio?: string }) {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url, MEDIA_WORKERS: '1' });
  const { apiKey } = await createAccount(redis, 'pro', extra);
  const tone = await opusTone(TONE_HZ, 0.4, 20 * TONE_FRAMES);
  return Promise.all(
    senders.map(async (sender, i) => {
      const { audio, messages } = sender;
      const enter = async (peer: string, format: string) => {
        const query = { api_key: apiKey, room: `${i}`, peer: `${peer} ${i}`, audio: format };
        const client = await connect(gateway, query);
        await client.next('joined');
        return client;
      };
      const [alice, bob] = [await enter('alice', audio), await enter('bob', 'opus')];
      await play(alice, messages);
      // A format that is declared is not told.
      const isTold = () =>
        audio !== 'auto' || alice.messages.some(({ type }) => type === 'audio_detected');
      await eventually(`${sender.name} is detected`, isTold);
      const { audio: told } = await alice.ask(
        { type: 'configure', volume: { bob: 1 } },
        'configured',
      );
      await play(bob, tone);
      await eventually('the tone is heard', () => alice.frames.length >= LAST_JUDGED);
      return { sender, told, frames: alice.frames.slice(0, LAST_JUDGED) };
    }),
  );
}

/** Expects the frames of a format, each whole and nothing else, to be the tone. */
async function expectTone(name: string, frames: Buffer[]): Promise<void> {
  const format = parseAudioFormat(name);
  const bytes = isSamples(format) ? (format.rateHz / 50) * frameBytesOf(format) : undefined;
  expect(frames.filter(({ length }) => length !== (bytes ?? length))).toEqual([]);
  expect(peakHz(await hearAs(format, frames.slice(FIRST_JUDGED)))).toBe(TONE_HZ);
}

describe('a client that sends a compressed format hears', () => {
  const senders = Object.entries(FILES).flatMap(([name, file]) => {
    const bytes = readFixture(file);
    // A second of it.
    const messages = cutInto(bytes, [Math.ceil(bytes.length / 130)]).slice(0, 50);
    return ['auto', name].map((audio) => ({ name, audio, messages }));
  });

  test.each([
    ['pcmu', { default_audio: 'pcmu' }],
    ['pcm_s16le;rate=24000;channels=1', { default_audio: 'pcm_s16le;rate=24000;channels=1' }],
    ['opus', {}],
  ])('%s, if its account has %o', async (out, extra) => {
    const heard = await hearEach(senders, extra);
    for (const { sender, told, frames } of heard) {
      expect(told).toMatchObject({ in: sender.name, out });
      await expectTone(out, frames);
    }
  });
});

test('a client that sends WAVE hears the samples that are inside, without a head, whatever its account has', async () => {
  const inside = [
    'pcm_s16le;rate=16000;channels=1',
    'pcm_s16le;rate=44100;channels=2',
    'pcm_s24le;rate=48000;channels=1',
    'pcm_u8;rate=8000;channels=1',
  ].map(parseAudioFormat);
  const senders = inside.filter(isSamples).flatMap((format) => {
    const samples = Buffer.concat(sampleTone(format, 300, 0.4, 1000));
    const messages = cutInto(wavFile(format, samples), [Math.ceil(samples.length / 50)]);
    return ['auto', 'wav'].map((audio) => ({ name: 'wav', audio, messages, format }));
  });
  for (const { sender, told, frames } of await hearEach(senders, { default_audio: 'pcmu' })) {
    const out = formatAudioFormat(sender.format);
    expect(told).toMatchObject({ in: 'wav', out });
    await expectTone(out, frames);
  }
});
