import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import { writeChromium } from '../support/chromium-on-host.ts';
import { TestClient } from '../support/client.ts';
import { SPEECH, SPEECH_RATE_HZ } from '../support/fixtures.ts';
import { undisturbed } from '../support/listening.ts';
import { GatewayProcess } from '../support/process.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { play, sampleMessages } from '../support/sound.ts';

/**
 * Underruns of audio over the WebSocket in a browser that listens to speech, with gateway and browser on different cores. UNDERRUN_MINUTES
 * sets for how many minutes it listens (0.75 by default), up to three times on a machine that stalls.
 */

const MINUTES = Number(process.env['UNDERRUN_MINUTES'] ?? 0.75);
const LISTENING_MS = MINUTES * 60_000;
const MOST_ATTEMPTS = 3;
/** For the jitter buffer to find its delay. */
const SETTLING_MS = 10_000;
const onCore = (core: number) => ['taskset', '-c', String(core)];

test.runIf(availableParallelism() > 1)(
  'a browser that listens over the WebSocket has one underrun at most',
  { timeout: MOST_ATTEMPTS * LISTENING_MS + 120_000 },
  async ({ annotate }) => {
    const slowness = await slownessOfMachine();
    const folder = await mkdtemp(join(tmpdir(), 'partyline-underruns-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const gateway = await GatewayProcess.start({}, undefined, onCore(0));
    onTestFinished(() => gateway.dispose());
    const { url, api_key: apiKey } = await gateway.ready();
    const browser = await TestBrowser.open(`${url}/?transports=websocket`, undefined, {
      executable: await writeChromium(folder, onCore(1)),
    });
    onTestFinished(() => browser.close());
    await browser.join('kitchen', 'Bob', apiKey);
    const format = { codec: 'pcm_s16le', rateHz: SPEECH_RATE_HZ, channels: 1 } as const;
    const audio = 'pcm_s16le;rate=16000;channels=1';
    const query = { room: 'kitchen', peer: 'Ada', api_key: apiKey, audio };
    const speaker = await TestClient.connect(url, query);
    await speaker.next('joined');
    const speech = sampleMessages(format, SPEECH);
    const durationMs = SETTLING_MS + (MOST_ATTEMPTS + 0.5) * LISTENING_MS;
    // In one go: a recording that begins anew at its last message is faster than real time.
    const repeats = Math.ceil(durationMs / 20 / speech.length);
    const stopped = new AbortController();
    const spoken = play(speaker, Array(repeats).fill(speech).flat(), stopped.signal);
    onTestFinished(async () => {
      stopped.abort();
      await spoken;
    });
    const statsOf = () => browser.page.evaluate(() => window.partyline?.stats());
    await sleep(SETTLING_MS);
    const stats = await undisturbed(
      async () => {
        // Statistics are of the time since the last call.
        await statsOf();
        await sleep(LISTENING_MS);
        return statsOf();
      },
      (MOST_ATTEMPTS - 0.5) * LISTENING_MS,
    );
    await annotate(`${MINUTES} min: ${JSON.stringify(stats)}`);
    // Audio came in all the time: there was something to run out of.
    expect(stats?.receivedBitrate).toBeGreaterThan(10_000);
    expect(stats?.underruns).toBeLessThanOrEqual(Math.floor(slowness));
  },
);
