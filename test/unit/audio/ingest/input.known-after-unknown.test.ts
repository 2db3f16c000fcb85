import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { parseAudioFormat } from '../../../../src/audio/format.ts';
import { arrivalsOf } from '../../../support/corpus.ts';
import { seededRandom } from '../../../support/random.ts';
import { openTimedClient } from '../../../support/timed-client.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 0 });
});

/** Duration of random bytes: long enough for the checks that every stream gets at its beginning. */
const BEFORE_MS = 6000;
const MOST_MS = 1000;

const changes = [
  'pcmu',
  'pcma',
  'pcm_f32le;rate=16000;channels=1',
  'pcm_f32le;rate=48000;channels=1',
]
  .flatMap((to) => [10, 20, 40, 60, 100].map((messageMs) => ({ to, messageMs })))
  .flatMap((change) => (['speech', 'music'] as const).map((content) => ({ ...change, content })));

test.each(changes)(
  'random bytes, then $content as $to in messages of $messageMs ms: detected within 1 s',
  async ({ to, messageMs, content }) => {
    const { input, packets, detected, faults, send, now } = openTimedClient(codecs);
    const random = seededRandom(messageMs);
    const before = Array.from({ length: BEFORE_MS / messageMs }, () =>
      Buffer.from(Uint8Array.from({ length: 16 * messageMs }, () => random() * 256)),
    );
    await send(before, messageMs);
    expect(detected.map(({ format }) => format)).toEqual(['opaque']);
    const changedAtMs = now();
    const sound = { content, format: parseAudioFormat(to), messageMs, seed: 2 } as const;
    const after = await arrivalsOf(sound, MOST_MS);
    await send(
      after.map(({ message }) => message),
      messageMs,
    );
    expect(detected.map(({ format }) => format)).toEqual(['opaque', to]);
    expect(detected[1]!.atMs - changedAtMs).toBeLessThan(MOST_MS);
    expect(packets).not.toEqual([]);
    expect(faults).toEqual([]);
    input.close();
  },
);
