import { expect, test, vi } from 'vitest';
import { undisturbed } from '../support/listening.ts';
import { SETTLING } from '../support/settling.ts';
import { slownessOfMachine, watchSlowness } from '../support/slowness.ts';
import {
  commotionOf,
  expectHeard,
  expectMuteAndLeave,
  expectToHear,
  KEEP,
  toneOf,
  useKitchen,
} from '../support/use-kitchen.ts';

/** A browser whose connection is lost for a time, and what that promises: how long a silence is, and how long a place is kept. */

const FRAME_MS = 20;
/** On the machine on which the limits of tests were set: a slower one takes as much longer (decision 191). */
const MAX_GAP_MS = 100;

const { openGateway, inKitchen, openProxy, openBrowser, say, openTalk } = useKitchen();

test('a connection is cut for 3 s: the sound goes on both ways, and then all is as it should be', async () => {
  const slowness = await watchSlowness();
  const { url, apiKey } = await openGateway(KEEP);
  const gateway = { url, apiKey };
  const proxy = await openProxy(url);
  const legacy = await inKitchen(gateway, 'door phone');
  say(legacy, await toneOf(1000));
  const browser = await openBrowser(proxy.url, apiKey, 'Ada');
  await expectToHear(browser, 'door phone', 1000);
  await expectHeard(legacy);
  // Long work is done before and after: the gateway runs in this process, too.
  const tone = await toneOf(2000);
  let visitors = new AsyncDisposableStack();
  const visit = async (peer: string) =>
    visitors.adopt(await inKitchen(gateway, peer), (client) => client.close());
  /** Cuts the connection for 3 s, in which one visitor goes and another comes; counts what is missing of the sound. */
  const cutOnce = async (number: number) => {
    await visitors.disposeAsync();
    visitors = new AsyncDisposableStack();
    const names = () => browser.names();
    await expect.poll(names, SETTLING).toEqual(['Ada', 'door phone']);
    const going = await visit(`eve ${number}`);
    await expect.poll(names, SETTLING).toHaveLength(3);
    const endListening = await browser.listenTo('door phone');
    const fromMs = performance.now();
    // Frames are counted at the moments of the browser's own counts, however long its answers take.
    const heardWallMs: number[] = [];
    legacy.onFrame = () => heardWallMs.push(Date.now());
    const before = await browser.packetsSent();

    proxy.cut();
    const status = browser.page.locator('#room-status');
    await vi.waitFor(
      async () => expect(await status.innerText()).toMatch(/audio continues/),
      SETTLING,
    );
    await going.close();
    const coming = await visit(`bob ${number}`);
    visitors.adopt(say(coming, tone), (speech) => speech.close());
    await new Promise((resolve) => setTimeout(resolve, fromMs + 3000 - performance.now()));
    proxy.leadTo(url);

    await browser.person(`bob ${number}`).waitFor();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    // Counted by what was sent: a machine that is too busy to speak for a moment is not silence.
    const after = await browser.packetsSent();
    const sent = after.packets - before.packets;
    const missing =
      sent - heardWallMs.filter((ms) => ms > before.wallMs && ms <= after.wallMs).length;
    return { sent, missing, silentMs: await endListening() };
  };
  let attempts = 0;
  const { sent, missing, silentMs } = await undisturbed((number) => cutOnce((attempts = number)));
  expect(sent).toBeGreaterThan(3000 / FRAME_MS / 2);
  expect(await browser.names()).toEqual(['Ada', 'door phone', `bob ${attempts}`]);
  await expectToHear(browser, `bob ${attempts}`, 2000);
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
  await visitors.disposeAsync();
  await expectMuteAndLeave(browser, 'Ada', legacy);
  // Measured without the browser's own load.
  await browser.close();
  const mostMs = MAX_GAP_MS * (await slowness());
  expect(silentMs).toBeLessThan(mostMs);
  expect(missing * FRAME_MS).toBeLessThan(mostMs);
});

test('unreachable for most of the time for which its place is kept: the browser is back in time', async () => {
  const keptMs = Math.round(6000 * (await slownessOfMachine()));
  const { legacy, browser, cut, restore } = await openTalk({ RESUME_MS: String(keptMs) });
  const fromMs = performance.now();
  await cut();
  await new Promise((resolve) => setTimeout(resolve, fromMs + 0.58 * keptMs - performance.now()));
  restore();
  const status = browser.page.locator('#room-status');
  await vi.waitFor(
    async () => expect(await status.innerText()).toMatch(/You are in the room/),
    SETTLING,
  );
  expect(commotionOf('Ada', legacy)).toEqual(['peer_joined']);
});
