import { beforeEach, describe, expect, test, vi } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import type { TestClient } from '../support/client.ts';
import { Hosts } from '../support/hosts.ts';
import { GatewayProcess } from '../support/process.ts';
import { TestProxy } from '../support/proxy.ts';
import { keepPlaying, lastSecondOf, opusTone, peakHz } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** A browser whose WebRTC is cut in a call, and mended: the page's port is open all the time. */

const { enter, cleanUps } = useStack();
const SETTLING = { timeout: 20_000, interval: 200 };
const PAGE_PORT = 3000;

describe.skipIf(!Hosts.arePossible)('a gateway whose WebRTC has a network of its own', () => {
  let hosts: Hosts;
  let legacy: TestClient;
  let ada: TestBrowser;

  beforeEach(async () => {
    hosts = Hosts.open(1);
    cleanUps.push(() => hosts.close());
    const environment = {
      HOST: '0.0.0.0',
      PORT: String(PAGE_PORT),
      RTC_LISTEN_IP: hosts.addressOfRedisClient(0),
    };
    const started = await GatewayProcess.start(environment, undefined, hosts.commandOn(0));
    cleanUps.push(() => started.dispose());
    const { api_key: apiKey } = await started.ready();
    const url = `http://${hosts.addressForClients(0)}:${PAGE_PORT}`;
    // Browsers give a microphone to pages of localhost.
    const proxy = await TestProxy.open(url);
    cleanUps.push(() => proxy.close());
    legacy = await enter({ url, apiKey }, 'door phone');
    const speech = keepPlaying(legacy, await opusTone(1000, 0.5, 20_000));
    cleanUps.push(() => speech.close());
    ada = await TestBrowser.openRaw(proxy.url, 800, 'webrtc,websocket');
    cleanUps.push(() => ada.close());
    await ada.join('a', 'Ada', apiKey);
  }, 60_000);

  const isHeard = () =>
    vi.waitFor(async () => {
      legacy.frames.length = 0;
      await legacy.until('a second of sound', () => legacy.frames.length > 60 || undefined, 5000);
      expect(peakHz(await lastSecondOf(legacy))).toBe(800);
    }, SETTLING);

  /** Waits until everybody was told that Ada goes this way. @returns how long that took, ms */
  const goesOver = async (kind: 'webrtc' | 'websocket', timeoutMs: number): Promise<number> => {
    const [sinceMs, told] = [Date.now(), legacy.messages.length];
    const isTold = () =>
      legacy.messages
        .slice(told)
        .find((message) => message.type === 'peer_changed' && message.kind === kind);
    await legacy.until(`Ada over ${kind}`, isTold, timeoutMs);
    return Date.now() - sinceMs;
  };

  test('WebRTC that is cut: over to the WebSocket, and back when it works again', async () => {
    await isHeard();
    await vi.waitFor(async () => expect(peakHz(await ada.hear('door phone'))).toBe(1000), SETTLING);
    hosts.setRedisLink(0, 'down');
    expect(await goesOver('websocket', 15_000)).toBeLessThan(6000);
    await isHeard();
    expect(peakHz(await ada.hearMix())).toBe(1000);

    hosts.setRedisLink(0, 'up');
    await goesOver('webrtc', 100_000);
    await isHeard();
    await vi.waitFor(async () => expect(peakHz(await ada.hear('door phone'))).toBe(1000), SETTLING);
    expect(legacy.messages.map(({ type }) => type)).not.toContain('peer_left');
  }, 200_000);
});
