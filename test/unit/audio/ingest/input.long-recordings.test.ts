import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { parseDeclaredFormat } from '../../../../src/audio/format.ts';
import { oggOpus, webmOpus } from '../../../support/containers.ts';
import { cutInto, readFixture } from '../../../support/fixtures.ts';
import { longPagesOf, packetsOf, pagesOf } from '../../../support/ogg-pages.ts';
import { opusTone } from '../../../support/sound.ts';
import { StallingDecoder } from '../../../support/stalling-decoder.ts';
import { openTimedClient } from '../../../support/timed-client.ts';

/** Recordings whose pages or clusters last for seconds, in messages of 100 ms, as ffmpeg sends them. */

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 0 });
});

const MESSAGE_MS = 100;
const TIMES = 4;
const DURATION_MS = TIMES * 2600;

/** Returns a recording in which the same sound is repeated, with a given number of packets in each page. */
function oggOf(name: string, heads: number, packetsPerPage: number): Buffer[] {
  const packets = packetsOf(readFixture(name));
  const sound = Array<Buffer[]>(TIMES).fill(packets.slice(heads)).flat();
  return [...pagesOf(packets.slice(0, heads)), ...longPagesOf(sound, packetsPerPage)];
}

const opus = () => opusTone(500, 0.5, DURATION_MS);

const RECORDINGS: [string, string, () => Buffer[] | Promise<Buffer[]>][] = [
  ['ogg_flac', 'pages of 1 s', () => oggOf('speech.oga', 3, 4)],
  ['ogg_vorbis', 'pages of 1 s', () => oggOf('speech.ogg', 3, 50)],
  ['ogg_opus', 'pages of 1 s', async () => oggOpus(await opus(), 20, { packetsPerPage: 50 })],
  ['ogg_opus', 'pages of 2 s', async () => oggOpus(await opus(), 20, { packetsPerPage: 100 })],
  [
    'webm_opus',
    'clusters of 5 s',
    async () => webmOpus(await opus(), 20, { packetsPerCluster: 250 }),
  ],
];

describe.each(RECORDINGS)('%s in %s', (codec, _, makeFile) => {
  test.each([codec, 'auto'])(
    'declared as %s: heard to its end, as one format',
    async (declared) => {
      // 256 ms, a frame of the FLAC; those of Vorbis are shorter, so more comes of them.
      const decoder = new StallingDecoder({ samplesPerFrame: 4096, rateHz: 16_000 });
      const client = openTimedClient(decoder.in(codecs), parseDeclaredFormat(declared));
      const { input, packets, detected, relayed, faults } = client;
      const file = Buffer.concat(await makeFile());
      const messages = cutInto(file, [Math.ceil((file.length * MESSAGE_MS) / DURATION_MS)]);
      await client.send(messages, MESSAGE_MS);
      await vi.waitFor(() => expect(packets.length).toBeGreaterThan(DURATION_MS / 20 - 20), 10_000);
      expect(detected.map(({ format }) => format)).toEqual(declared === 'auto' ? [codec] : []);
      expect(faults).toEqual([]);
      expect(relayed).toEqual([]);
      input.close();
    },
  );
});
