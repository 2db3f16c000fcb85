import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { lanAddresses, urlAt } from '../../src/processes/lan.ts';
import { TestBrowser } from '../support/browser.ts';
import { TestClient } from '../support/client.ts';
import { GatewayProcess } from '../support/process.ts';
import { SETTLING } from '../support/settling.ts';
import { keepPlaying, lastSecondOf, opusTone, pcmTone, peakHz } from '../support/sound.ts';
import { startArguments } from '../support/start-arguments.ts';
import { useStack } from '../support/use-stack.ts';

/** A browser on another machine, as far as one machine can be two: at an address that is not loopback. */

const { cleanUps } = useStack();
const [ADDRESS = ''] = lanAddresses('0.0.0.0', networkInterfaces());

async function start(environment: Record<string, string>, ...words: string[]) {
  const command = [process.execPath, ...startArguments(), ...words];
  const gateway = await GatewayProcess.startWith(command, environment);
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  return { dataDir: gateway.dataDir, apiKey, url: urlAt(ADDRESS, url) };
}

/** Opens the page there, with a certificate that the person has accepted. */
async function openPage(url: string): Promise<TestBrowser> {
  const options = { acceptsCertificate: true, isNamedChrome: true };
  const browser = await TestBrowser.open(
    `${url}/?raw&transports=webrtc`,
    pcmTone(800, 0.5, 10_000),
    options,
  );
  cleanUps.push(() => browser.close());
  return browser;
}

async function enter({ url, apiKey }: { url: string; apiKey: string }, ca?: Buffer) {
  const query = { room: 'kitchen', peer: 'door phone', api_key: apiKey, audio: 'opus' };
  const client = await TestClient.connect(url, query, ca ? { ca } : {});
  cleanUps.push(() => client.vanish());
  await client.next('joined');
  const speech = keepPlaying(client, await opusTone(1000, 0.5, 10_000));
  cleanUps.push(() => speech.close());
  return client;
}

describe.skipIf(ADDRESS === '')('a browser at another address of the machine', () => {
  test('--lan: it has a microphone, is heard and hears', async () => {
    const gateway = await start({}, '--lan');
    const client = await enter(gateway, await readFile(join(gateway.dataDir, 'lan-cert.pem')));
    const browser = await openPage(gateway.url);
    await browser.join('kitchen', 'Ada', gateway.apiKey);
    await vi.waitFor(async () => {
      expect(client.frames.length).toBeGreaterThan(75);
      expect(peakHz(await lastSecondOf(client))).toBe(800);
    }, SETTLING);
    await vi.waitFor(
      async () => expect(peakHz(await browser.hear('door phone'))).toBe(1000),
      SETTLING,
    );
  });

  test('plain HTTP: the page says why there is no microphone, and it hears', async () => {
    const gateway = await start({ HOST: '0.0.0.0' });
    await enter(gateway);
    const browser = await openPage(gateway.url);
    await browser.join('kitchen', 'Ada', gateway.apiKey);
    const notice = browser.page.locator('#notice-text');
    await expect
      .poll(() => notice.innerText(), SETTLING)
      .toBe(
        'The browser allows the microphone only on pages over https, or on localhost. You can listen, but nobody hears you.',
      );
    await vi.waitFor(
      async () => expect(peakHz(await browser.hear('door phone'))).toBe(1000),
      SETTLING,
    );
  });
});
