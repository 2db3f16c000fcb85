import { eventually } from '../support/gateway.ts';
import { afterEach, expect, test, vi } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import { TestClient } from '../support/client.ts';
import { freePort } from '../support/free-ports.ts';
import { GatewayProcess } from '../support/process.ts';
import { SETTLING } from '../support/settling.ts';
import { keepPlaying, lastSecondOf, opusTone, peakHz, pcmTone } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The gateway as `npm start` runs it, the page at the address that it prints, and what happens when it goes away. */

const used = useGateway();
const { keep } = used;
const started: GatewayProcess[] = [];
afterEach(async () => {
  for (const gateway of started.splice(0)) await gateway.dispose();
});

async function start(environment?: Record<string, string>, dataDir?: string) {
  const gateway = await GatewayProcess.start(environment, dataDir);
  started.push(gateway);
  return gateway;
}

async function enter(url: string, apiKey: string): Promise<TestClient> {
  const query = { room: 'kitchen', peer: 'door phone', api_key: apiKey, audio: 'opus' };
  const client = keep(await TestClient.connect(url, query));
  await client.next('joined');
  return client;
}

/** Both ways: 1000 Hz from the WebSocket peer, 800 Hz from the browser's microphone. */
async function expectToHearEachOther(browser: TestBrowser, legacy: TestClient): Promise<void> {
  const speech = keep(keepPlaying(legacy, await opusTone(1000, 0.5, 10_000)));
  await vi.waitFor(async () => {
    expect(peakHz(await browser.hear('door phone'))).toBe(1000);
    expect(legacy.frames.length).toBeGreaterThan(75);
    expect(peakHz(await lastSecondOf(legacy))).toBe(800);
  }, SETTLING);
  await speech.close();
}

test('at the printed address, with the printed key and voice processing on: a voice is heard', async () => {
  const { url, api_key: apiKey } = await (await start()).ready();
  const legacy = await enter(url, apiKey);
  // Syllables: what lasts is taken for noise, and suppressed.
  const syllables = pcmTone(300, 0.5, 10_000).map((tone, i) =>
    i % 15 < 8 ? tone : Buffer.alloc(tone.length),
  );
  const browser = keep(await TestBrowser.open(`${url}/?transports=webrtc`, syllables));
  await browser.join('kitchen', 'Ada', apiKey);
  await vi.waitFor(async () => {
    expect(legacy.frames.length).toBeGreaterThan(75);
    expect(peakHz(await lastSecondOf(legacy))).toSatisfy((hz: number) => Math.abs(hz - 300) <= 30);
  }, SETTLING);
});

test.each(['SIGTERM', 'SIGKILL'] as const)(
  'a gateway that ends by %s and comes again: the page says so, comes back by itself, hears and is heard',
  async (signal) => {
    const PORT = String(await freePort());
    const gateway = await start({ PORT });
    const { url, api_key: apiKey } = await gateway.ready();
    const browser = keep(await TestBrowser.openRaw(url, 800));
    await browser.join('kitchen', 'Ada', apiKey);
    gateway.child.kill(signal);
    const status = browser.page.locator('#room-status');
    await vi.waitFor(
      async () => expect(await status.innerText()).toMatch(/Trying again/),
      SETTLING,
    );
    await gateway.exitCode();
    const again = await start({ PORT }, gateway.dataDir);
    expect((await again.ready()).api_key).toBe(apiKey);
    const legacy = await enter(url, apiKey);
    expect(await legacy.until('Ada', () => comingOf('Ada', legacy), 30_000)).toBe('webrtc');
    await expectToHearEachOther(browser, legacy);
    await expect.poll(() => status.innerText(), SETTLING).toContain('with one other');
  },
);

/** Tells whether a peer was there before, or came since. */
function comingOf(name: string, { messages }: TestClient): string | undefined {
  return messages
    .flatMap((message) => {
      if (message.type === 'joined') return message.peers;
      return message.type === 'peer_joined' ? [message] : [];
    })
    .find(({ peer }) => peer === name)?.kind;
}

test.each(['SIGKILL', 'SIGSTOP'] as const)(
  'media workers that end by %s: the page comes back into the room by itself, hears and is heard',
  async (signal) => {
    const { url, apiKey } = used.gateway;
    const browser = keep(await TestBrowser.openRaw(url, 800));
    await browser.join('kitchen', 'Ada', apiKey);
    const legacy = await enter(url, apiKey);
    await expectToHearEachOther(browser, legacy);
    const told = legacy.messages.length;
    const killed = used.gateway.mediaWorkerPids();
    for (const pid of killed) process.kill(pid, signal);
    await eventually('they are replaced', () => {
      const pids = used.gateway.mediaWorkerPids();
      return pids.length === killed.length && !pids.some((pid) => killed.includes(pid));
    });
    // Frames from before do not count.
    legacy.frames.length = 0;
    await expectToHearEachOther(browser, legacy);
    const since = legacy.messages.slice(told).map(({ type }) => type);
    for (const type of ['peer_left', 'peer_joined', 'error']) expect(since).not.toContain(type);
  },
);
