import { beforeEach, expect, vi } from 'vitest';
import type { TestClient } from './client.ts';
import { DesktopBrowser } from './desktop-browser.ts';
import { TestProxy } from './proxy.ts';
import { SETTLING } from './settling.ts';
import { keepPlaying, lastSecondOf, opusTone, peakHz, tone } from './sound.ts';
import { SoundCard } from './sound-card.ts';
import { useStack } from './use-stack.ts';

const ROOM = 'a';
const MICROPHONE_HZ = 800;
const LEGACY_HZ = 1000;
/** Amplitude of what the legacy client says. */
export const LEGACY_AMPLITUDE = 0.5;

type Transport = 'webrtc' | 'websocket';

/**
 * A page on a desktop and a legacy client, each of which hears the other, opened by each test for itself. Sound of the page counts as played
 * when it arrives at the sound card.
 */
export function useDesktop() {
  const { openGateway, enter, cleanUps } = useStack();
  let gateway: { url: string; apiKey: string };
  let proxy: TestProxy;
  let card: SoundCard;
  let browser: DesktopBrowser;
  let legacy: TestClient;

  beforeEach(async () => {
    gateway = await openGateway();
    proxy = await TestProxy.open(gateway.url);
    cleanUps.push(() => proxy.close());
    card = await SoundCard.open();
    cleanUps.push(() => card.close());
    const voice = card.keepSpeaking(tone(MICROPHONE_HZ, 0.5, 1000));
    cleanUps.push(() => voice.close());
    legacy = await enter(gateway, 'door phone');
  });

  /** Opens the page, in no room. */
  const open = async (transport: Transport): Promise<void> => {
    browser = await DesktopBrowser.open(`${proxy.url}/?raw&transports=${transport}`, card);
    cleanUps.push(() => browser.close());
  };
  /** Presses a button of the open page; resolves when the room is shown. */
  const press = (button?: string) => browser.join(ROOM, 'Ada', gateway.apiKey, button);
  const join = async (transport: Transport): Promise<void> => {
    await open(transport);
    await press();
  };
  /** Lets the legacy client speak. @returns what ends that */
  const speak = async (): Promise<() => Promise<void>> => {
    const speech = keepPlaying(legacy, await opusTone(LEGACY_HZ, LEGACY_AMPLITUDE, 10_000));
    cleanUps.push(() => speech.close());
    return () => speech.close();
  };
  /** Returns the frequency that speakers play for half a second, Hz; 0 for silence. */
  const playedHz = async (speakers: string): Promise<number> => {
    const last = await card.played(speakers);
    return last.some((sample) => Math.abs(sample) > 0.05) ? peakHz(last) : 0;
  };
  const expectPlayed = (speakers = 'speakers') =>
    vi.waitFor(async () => expect(await playedHz(speakers)).toBe(LEGACY_HZ), SETTLING);
  /** Awaits that the legacy client hears the microphone. */
  const expectHeard = () => {
    legacy.frames.length = 0;
    return vi.waitFor(async () => {
      expect(legacy.frames.length).toBeGreaterThan(75);
      expect(peakHz(await lastSecondOf(legacy))).toBe(MICROPHONE_HZ);
    }, SETTLING);
  };
  /** Types of the messages that the legacy client was sent after the first `told`. */
  const toldSince = (told: number) => legacy.messages.slice(told).map(({ type }) => type);

  return {
    get card() {
      return card;
    },
    get browser() {
      return browser;
    },
    open,
    press,
    join,
    speak,
    playedHz,
    expectPlayed,
    expectHeard,
    toldSince,
  };
}
