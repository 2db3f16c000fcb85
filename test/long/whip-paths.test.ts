import { beforeEach, describe, expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { SETTLING } from '../support/settling.ts';
import { joinPcm, keepPlaying, pcmTone, peakHz } from '../support/sound.ts';
import { openChromium } from '../support/stack-peer.ts';
import { useStack } from '../support/use-stack.ts';
import { WhipClient } from '../support/whip-client.ts';

/** Paths of clients of WHIP and WHEP that change, or are lost, with live media on them. */

const { enter, cleanUps } = useStack();

/** Awaits that a legacy client hears a tone in what comes from now on. */
const untilHeard = async (legacy: TestClient, hz: number) => {
  const from = legacy.frames.length;
  const heard = () => peakHz(joinPcm(legacy.frames.slice(from).slice(-25)));
  await expect.poll(heard, SETTLING).toBe(hz);
};
const namesOf = ({ messages }: TestClient, type: 'peer_joined' | 'peer_left') =>
  messages.flatMap((message) => (message.type === type ? [message.peer] : []));

describe.skipIf(!Hosts.arePossible)('WHIP and WHEP', () => {
  let hosts: Hosts;
  let gateway: { url: string; apiKey: string };
  let running: GatewayProcess;
  let legacy: TestClient;

  beforeEach(async () => {
    hosts = Hosts.open(1);
    cleanUps.push(() => hosts.close());
    const environment = {
      HOST: hosts.addressForClients(0),
      // The link of Redis carries media here: it can be cut, and leaves that of HTTP as it is.
      RTC_LISTEN_IP: hosts.addressOfRedisClient(0),
      RESUME_MS: '15000',
      LOG_LEVEL: 'debug',
      // The least that mediasoup takes.
      ...timingsOf({ whip: { consentMs: 10_000 } }),
    };
    running = await GatewayProcess.start(environment, undefined, hosts.commandOn(0));
    cleanUps.push(() => running.dispose());
    const { url, api_key: apiKey } = await running.ready();
    gateway = { url, apiKey };
    legacy = await enter(gateway, 'legacy', { audio: 'pcm_s16le;rate=48000;channels=1' });
    const singing = keepPlaying(legacy, pcmTone(440, 0.3, 1000));
    cleanUps.push(() => singing.close());
  });

  const openBrowser = async () => {
    const browser = await openChromium({ ...gateway, room: 'a', peer: 'browser' }, 700);
    cleanUps.push(() => browser.close());
    const untilHears = async () => {
      await expect.poll(async () => peakHz(await browser.heard()), SETTLING).toBe(440);
    };
    await untilHeard(legacy, 700);
    await untilHears();
    return { browser, untilHears };
  };

  test('restart ICE with live media, and nobody notices', async () => {
    const { browser, untilHears } = await openBrowser();
    expect(await browser.restart()).toEqual([200, 200]);
    await untilHeard(legacy, 700);
    await untilHears();
    expect(namesOf(legacy, 'peer_joined')).toEqual(['browser']);
    expect(namesOf(legacy, 'peer_left')).toEqual([]);
  });

  test('notice a path that is lost: who comes back within RESUME_MS is resumed unseen, who does not is gone', async () => {
    const { browser, untilHears } = await openBrowser();
    const gone = await WhipClient.connect('whip', gateway, '/whip/a?peer=gone');
    const changes = () => running.logged('whip path changed');
    const before = changes().length;
    hosts.setRedisLink(0, 'down');
    await gone.vanish();
    // A path may have been lost, and come back, before.
    const lost = () => {
      const since = changes().slice(before);
      const paths = since.filter(({ state }) => state === 'lost');
      return new Set(paths.map(({ peer, kind }) => `${peer as string} ${kind as string}`));
    };
    const all = new Set(['browser whip', 'browser whep', 'gone whip']);
    await expect.poll(lost, SETTLING).toEqual(all);
    hosts.setRedisLink(0, 'up');
    expect(await browser.restart()).toEqual([200, 200]);
    await untilHeard(legacy, 700);
    await untilHears();
    await eventually(
      'the other is 404',
      async () => (await gone.ask('GET')).status === 404,
      40_000,
    );
    expect(await legacy.next('peer_left')).toMatchObject({ peer: 'gone', reason: 'closed' });
    expect(namesOf(legacy, 'peer_left')).toEqual(['gone']);
    expect(namesOf(legacy, 'peer_joined')).toEqual(['browser', 'gone']);
  });
});
