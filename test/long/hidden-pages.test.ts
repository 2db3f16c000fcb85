import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { useDesktop } from '../support/use-desktop.ts';

/** A page on a desktop that is hidden until the browser throttles its timers: it hears, and is heard when it speaks. */

/** Wait until the browser throttles a hidden page that plays nothing, which it does half a minute after the last sound. */
const THROTTLING = { timeout: 120_000, interval: 0 };

const desktop = useDesktop();
const { open, speak, expectPlayed, expectHeard, toldSince } = desktop;

test.for([
  { transport: 'websocket', pace: 'once a minute', mostTurns: 3, furtherMs: 60_000 },
  // Chromium spares pages with WebRTC: their timers run once a second.
  { transport: 'webrtc', pace: 'once a second', mostTurns: 15, furtherMs: 0 },
] as const)(
  'over $transport a page that is hidden until its timers run $pace hears, and is heard when it speaks',
  { timeout: 300_000 },
  async ({ transport, mostTurns, furtherMs }, { annotate }) => {
    await open(transport);
    // A page with an open microphone is not throttled so.
    await desktop.press('#listen');
    const { page } = desktop.browser;
    const stopSpeaking = await speak();
    await expectPlayed();
    await stopSpeaking();
    await page.evaluate(() => {
      const counter = { turns: 0 };
      Object.assign(window, { counter });
      const count = () => {
        counter.turns += 1;
        setTimeout(count, 100);
      };
      count();
    });
    const turns = () =>
      page.evaluate(() => (Reflect.get(window, 'counter') as { turns: number }).turns);
    await desktop.browser.hide();
    const hiddenMs = performance.now();
    expect(await page.evaluate(() => document.visibilityState)).toBe('hidden');
    // In other hidden pages the timer of the count runs once a second.
    const turnsInTenSeconds = async () => {
      const before = await turns();
      await sleep(10_000);
      return (await turns()) - before;
    };
    await expect.poll(turnsInTenSeconds, THROTTLING).toBeLessThan(mostTurns);
    await sleep(furtherMs);
    expect(await turnsInTenSeconds()).toBeLessThan(mostTurns);
    await speak();
    await expectPlayed();
    await page.evaluate(() => document.querySelector<HTMLElement>('#mute')?.click());
    await expectHeard();
    expect(await page.evaluate(() => document.visibilityState)).toBe('hidden');
    await annotate(`hidden for ${Math.round((performance.now() - hiddenMs) / 1000)} s`);
    expect(toldSince(0)).not.toContain('peer_left');
    expect(toldSince(0)).not.toContain('peer_changed');
  },
);
