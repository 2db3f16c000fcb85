import { expect, vi } from 'vitest';
import { TestBrowser } from './browser.ts';
import type { TestClient } from './client.ts';
import { TestProxy } from './proxy.ts';
import { SETTLING } from './settling.ts';
import { keepPlaying, lastSecondOf, opusTone, peakHz } from './sound.ts';
import { useStack } from './use-stack.ts';

const ROOM = 'kitchen';
/** Amplitude of all that is said. */
export const SPOKEN = 0.5;
export const KEEP = { RESUME_MS: '15000' };

/** Browsers in the kitchen whose connections can be cut, and WebSocket peers there, closed after each test. */
export function useKitchen() {
  const { openGateway, openNodes, enter, cleanUps } = useStack();

  const keep = <T extends { close(): Promise<void> }>(part: T): T => {
    cleanUps.push(() => part.close());
    return part;
  };
  const inKitchen = (node: { url: string; apiKey: string }, peer: string) =>
    enter(node, peer, { room: ROOM });
  const openProxy = async (target: string) => keep(await TestProxy.open(target));
  const openBrowser = async (url: string, apiKey: string, peer: string, microphoneHz = 800) => {
    const browser = keep(await TestBrowser.openRaw(url, microphoneHz));
    await browser.join(ROOM, peer, apiKey);
    return browser;
  };
  const say = (client: TestClient, tone: Buffer[]) => keep(keepPlaying(client, tone));

  /** A browser and a WebSocket peer that hear each other, and the way of the browser's, which can be cut. */
  const openTalk = async (environment: Record<string, string>) => {
    const gateway = await openGateway({ ...environment, MEDIA_WORKERS: '1' });
    const proxy = await openProxy(gateway.url);
    const legacy = await inKitchen(gateway, 'door phone');
    say(legacy, await toneOf(1000));
    const browser = await openBrowser(proxy.url, gateway.apiKey, 'Ada');
    await expectToHear(browser, 'door phone', 1000);
    await expectHeard(legacy);
    const cut = async () => {
      proxy.cut();
      const status = browser.page.locator('#room-status');
      await vi.waitFor(
        async () => expect(await status.innerText()).toMatch(/Trying again/),
        SETTLING,
      );
    };
    return { gateway, legacy, browser, cut, restore: () => proxy.leadTo(gateway.url) };
  };

  return { openGateway, openNodes, inKitchen, openProxy, openBrowser, say, openTalk };
}

export const toneOf = (frequencyHz: number) => opusTone(frequencyHz, SPOKEN, 10_000);

/** Messages that told the others of a peer's coming and going. */
export const commotionOf = (peer: string, { messages }: TestClient) =>
  messages
    .filter(({ type }) => type === 'peer_joined' || type === 'peer_left')
    .filter((message) => 'peer' in message && message.peer === peer)
    .map(({ type }) => type);

/** Awaits that a peer hears the tone of a browser's microphone. */
export const expectHeard = (legacy: TestClient, frequencyHz = 800) =>
  vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(75);
    expect(peakHz(await lastSecondOf(legacy))).toBe(frequencyHz);
  }, SETTLING);

export const expectToHear = (browser: TestBrowser, peer: string, frequencyHz: number) =>
  vi.waitFor(async () => expect(peakHz(await browser.hear(peer))).toBe(frequencyHz), SETTLING);

const expectNothing = (legacy: TestClient) =>
  vi.waitFor(async () => {
    const before = legacy.frames.length;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(legacy.frames.length).toBe(before);
  }, SETTLING);

/** Presses the buttons, which still do what they say. */
export async function expectMuteAndLeave(browser: TestBrowser, peer: string, legacy: TestClient) {
  await browser.page.click('#mute');
  await expectNothing(legacy);
  await browser.page.click('#mute');
  legacy.frames.length = 0;
  await expectHeard(legacy);
  await browser.page.click('#leave');
  await vi.waitFor(() => expect(commotionOf(peer, legacy).at(-1)).toBe('peer_left'), SETTLING);
}
