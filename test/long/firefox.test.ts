import { beforeEach, describe, expect, test, vi } from 'vitest';
import { TestFirefox } from '../support/firefox.ts';
import { Hosts } from '../support/hosts.ts';
import { GatewayProcess } from '../support/process.ts';
import { SETTLING } from '../support/settling.ts';
import {
  amplitudeOf,
  keepPlaying,
  lastSecondOf,
  opusTone,
  peakHz,
  tone,
} from '../support/sound.ts';
import { SoundCard } from '../support/sound-card.ts';
import { useStack } from '../support/use-stack.ts';

const { enter, cleanUps } = useStack();

/** Firefox has no loopback candidates: it needs a network, be it one to nowhere. */
describe.skipIf(!Hosts.arePossible)('Firefox at the printed address', () => {
  let card: SoundCard;
  let firefox: TestFirefox;
  let gateway: { url: string; apiKey: string };

  beforeEach(async () => {
    const hosts = Hosts.open(1);
    cleanUps.push(() => hosts.close());
    const started = await GatewayProcess.start();
    cleanUps.push(() => started.dispose());
    const { url, api_key: apiKey } = await started.ready();
    gateway = { url, apiKey };
    card = await SoundCard.open();
    cleanUps.push(() => card.close());
    card.keepSpeaking(tone(1000, 0.5, 1000));
    firefox = await TestFirefox.open(`${url}/?raw&transports=webrtc`, card);
    cleanUps.push(() => firefox.close());
  });

  test('hears and is heard, and Mute mutes it', async () => {
    const legacy = await enter(gateway, 'door phone');
    const speech = keepPlaying(legacy, await opusTone(600, 0.5, 10_000));
    cleanUps.push(() => speech.close());
    await firefox.join('a', 'Ada', gateway.apiKey);
    await vi.waitFor(
      async () => expect(amplitudeOf(await card.played(), 600)).toBeCloseTo(0.5, 1),
      SETTLING,
    );
    await vi.waitFor(async () => {
      expect(legacy.frames.length).toBeGreaterThan(75);
      expect(peakHz(await lastSecondOf(legacy))).toBe(1000);
    }, SETTLING);
    await firefox.page.click('#mute');
    await vi.waitFor(async () => {
      const before = legacy.frames.length;
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(legacy.frames.length).toBe(before);
    }, SETTLING);
  });
});
