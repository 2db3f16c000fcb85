import { expect, test, vi } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import { eventually } from '../support/gateway.ts';
import { SETTLING } from '../support/settling.ts';
import {
  amplitudeOf,
  keepPlaying,
  lastSecondOf,
  opusTone,
  pcmTone,
  toDb,
} from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Three of them together are not limited. */
const SPOKEN = 0.25;
const TONES_HZ = { one: 700, two: 1300, three: 1900, legacy: 2500 };
type Name = keyof typeof TONES_HZ;

const used = useGateway({ MEDIA_WORKERS: '2', ROUTER_MAX_CONSUMERS: '2' });

/** Level of each heard tone relative to the spoken one, dB. */
const levelsDb = (heard: Float32Array) =>
  Object.values(TONES_HZ).map((hz) => toDb(amplitudeOf(heard, hz) / SPOKEN));

/** Expects the tone of each other peer within 1.5 dB, and nothing of the peer's own. */
function expectTones(heard: Float32Array, self: Name): void {
  const isAsSaid = levelsDb(heard).map((levelDb, index) =>
    Object.keys(TONES_HZ)[index] === self ? levelDb < -40 : Math.abs(levelDb) < 1.5,
  );
  expect(isAsSaid).toEqual([true, true, true, true]);
}

test('a room that is spread over two media workers: each hears all the others, at their level', async () => {
  const legacy = await used.enter('legacy');
  const browsers = new Map<Name, TestBrowser>();
  for (const name of ['one', 'two', 'three'] as const) {
    const microphone = pcmTone(TONES_HZ[name], SPOKEN, 10_000);
    const browser = used.keep(
      await TestBrowser.open(`${used.gateway.url}/?raw&transports=webrtc`, microphone),
    );
    browsers.set(name, browser);
    await browser.join('a', name, used.gateway.apiKey);
    const isHeard = () => (legacy.frames.length > 50 ? true : undefined);
    await legacy.until('its sound', isHeard, SETTLING.timeout);
    legacy.frames.length = 0;
  }
  used.keep(keepPlaying(legacy, await opusTone(TONES_HZ.legacy, SPOKEN, 10_000)));
  expect(await used.gateway.countRouters()).toBe(2);
  for (const [name, browser] of browsers) {
    const others = Object.keys(TONES_HZ).filter((other) => other !== name);
    await vi.waitFor(async () => expectTones(await browser.hear(...others), name), SETTLING);
  }
  await vi.waitFor(async () => expectTones(await lastSecondOf(legacy), 'legacy'), SETTLING);
  for (const name of ['two', 'three'] as const) await browsers.get(name)?.close();
  await eventually('it draws back', async () => (await used.gateway.countRouters()) === 1);
  await vi.waitFor(async () => {
    const heard = await browsers.get('one')?.hear('legacy');
    expect(heard && amplitudeOf(heard, TONES_HZ.legacy)).toBeGreaterThan(SPOKEN / 2);
  }, SETTLING);
});
