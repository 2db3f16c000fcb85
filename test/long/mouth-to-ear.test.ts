import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import { undisturbed } from '../support/listening.ts';
import { BURST_EVERY_MS, measureBursts } from '../support/mouth-to-ear.ts';
import { watchSlowness } from '../support/slowness.ts';
import { pcmTone } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** From a microphone of one browser to the speakers of another: from the thread that renders the one to that which renders the other. */

const used = useGateway();
const BURSTS = 20;
/** For the jitter buffers to find their delays. */
const SETTLING_MS = 10_000;
/** On the machine on which the limits of tests were set: a slower one takes as much longer (decision 191). */
const LONGEST_P50_MS = 150;
const SILENCE = pcmTone(1000, 0, 1000);

async function openBrowser(transport: string, is: 'mouth' | 'ear'): Promise<TestBrowser> {
  const address = `${used.gateway.url}/?raw&transports=${transport}`;
  const browser = used.keep(await TestBrowser.open(address, SILENCE, { runsForeignScripts: true }));
  await measureBursts(browser.page, is);
  return browser;
}

const burstsOf = ({ page }: TestBrowser) => page.evaluate(() => window.burstsMs ?? []);

test.for(['websocket', 'webrtc'])(
  'half of the bursts over %s are heard within 150 ms, and all within 300 ms',
  async (transport, { annotate }) => {
    const slownessSince = await watchSlowness();
    const [mouth, ear] = [
      await openBrowser(transport, 'mouth'),
      await openBrowser(transport, 'ear'),
    ];
    await mouth.join('kitchen', 'Ada', used.gateway.apiKey);
    await ear.join('kitchen', 'Bob', used.gateway.apiKey);
    await sleep(SETTLING_MS);
    const statsOf = () => ear.page.evaluate(() => window.partyline?.stats());
    const { stats, said, heard } = await undisturbed(async () => {
      // Statistics are of the time since the last call.
      await statsOf();
      const fromMs = Date.now();
      await sleep(BURSTS * BURST_EVERY_MS);
      return {
        stats: await statsOf(),
        said: (await burstsOf(mouth)).filter((burstMs) => burstMs > fromMs).slice(0, -1),
        heard: await burstsOf(ear),
      };
    });
    const delaysMs = said
      .flatMap((burstMs) => {
        const heardMs = heard.find((ms) => ms >= burstMs && ms < burstMs + BURST_EVERY_MS);
        return heardMs === undefined ? [] : [heardMs - burstMs];
      })
      .toSorted((a, b) => a - b);
    const p50 = delaysMs[Math.floor(delaysMs.length / 2)] ?? Infinity;
    const figures = `p50 ${Math.round(p50)} ms, longest ${Math.round(delaysMs.at(-1) ?? 0)} ms`;
    // Without the browsers' own load.
    await Promise.all([mouth.close(), ear.close()]);
    const slowness = await slownessSince();
    await annotate(`${figures} of ${delaysMs.length}; stats: ${JSON.stringify(stats)}`);
    expect(delaysMs).toHaveLength(said.length);
    expect(said.length).toBeGreaterThan(BURSTS - 3);
    expect(p50).toBeLessThan(LONGEST_P50_MS * slowness);
    expect(delaysMs.at(-1)).toBeLessThan(2 * LONGEST_P50_MS * slowness);
  },
);
