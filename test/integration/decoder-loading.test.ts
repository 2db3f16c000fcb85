import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cutInto, readFixture } from '../support/fixtures.ts';
import { GatewayProcess } from '../support/process.ts';
import { eventually } from '../support/gateway.ts';
import { opusTone, pcmTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** Decoders of compressed formats, which a gateway loads when the first client sends one. */

const { enter, cleanUps } = useStack();

/** A file of each decoder, and the modules of the decoder. */
const DECODERS: [format: string, file: string, modules: string][] = [
  ['mp3', 'speech.mp3', '/mpg123-decoder/'],
  ['flac', 'speech.flac', '/@wasm-audio-decoders/flac/'],
  ['ogg_vorbis', 'speech-48000.ogg', '/@wasm-audio-decoders/ogg-vorbis/'],
  ['aac_adts', 'speech.aac', '/src/audio/aac/'],
];
const THREAD = '/decoder-thread-main.ts';

/** Starts a gateway that notes in a file which modules each of its threads loads. */
async function startNoting() {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-modules-'));
  cleanUps.push(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'modules');
  const preload = new URL('../support/note-modules.ts', import.meta.url).href;
  const gateway = await GatewayProcess.start({
    USAGE_WORKERS: '0',
    NOTED_MODULES: file,
    NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import ${preload}`,
  });
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  const loaded = async () => {
    const urls = await readFile(file, 'utf8');
    return [THREAD, ...DECODERS.map(([, , modules]) => modules)].filter((each) =>
      urls.includes(each),
    );
  };
  return { node: { url, apiKey }, loaded };
}

test('a gateway loads no decoder before a client sends its format, and then only that one', async () => {
  const { node, loaded } = await startNoting();
  const listener = await enter(node, 'listener');
  const isHeard = async (count: number) => {
    await eventually('it is heard', () => listener.frames.length >= count);
    listener.frames.length = 0;
  };
  const speech = readFixture('speech.wav');
  const others: [string, Buffer[]][] = [
    ['opus', await opusTone(500, 0.4, 400)],
    ['pcm_s16le;rate=48000;channels=1', pcmTone(500, 0.4, 400)],
    ['g722', cutInto(readFixture('speech.g722'), [160]).slice(0, 20)],
    ['wav', cutInto(speech, [640]).slice(0, 20)],
  ];
  for (const [audio, messages] of others) {
    await play(await enter(node, audio, { audio }), messages);
    await isHeard(10);
  }
  expect(await loaded()).toEqual([]);

  const expected = [THREAD];
  for (const [format, file, modules] of DECODERS) {
    const sender = await enter(node, format, { audio: 'auto' });
    const bytes = readFixture(file);
    await play(sender, cutInto(bytes, [Math.ceil(bytes.length / 130)]).slice(0, 50));
    expect(await sender.next('audio_detected')).toMatchObject({ in: format });
    await isHeard(10);
    expected.push(modules);
    await expect.poll(loaded).toEqual(expected);
  }
});
