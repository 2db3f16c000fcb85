import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { TestBrowser } from '../support/browser.ts';
import { writeChromium } from '../support/chromium-on-host.ts';
import { eventually } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import { Ipv6Network } from '../support/ipv6-network.ts';
import { GatewayProcess } from '../support/process.ts';
import { SETTLING } from '../support/settling.ts';
import { joinPcm, keepPlaying, opusTone, pcmTone, peakHz, toneIn } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';
import type { Visit } from '../support/visitor.ts';

const { enter, cleanUps } = useStack();

const VISITOR = fileURLToPath(new URL('../support/visitor.ts', import.meta.url));
const PCM = { audio: 'pcm_s16le;rate=48000;channels=1' };
const HERE_HZ = 600;

/** Opens a gateway at both families, somebody who talks and somebody who listens on IPv4, and a machine without IPv4. */
async function openMachine() {
  const network = Ipv6Network.open();
  cleanUps.push(() => network.close());
  expect(network.listIpv4()).toBe('');
  const gateway = await GatewayProcess.start({
    HOST: '::',
    RTC_LISTEN_IP: `127.0.0.1,${network.addressHere}`,
  });
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  const { port } = new URL(url);
  const listener = await enter({ url: `http://127.0.0.1:${port}`, apiKey }, 'ear', PCM);
  const mouth = await enter({ url: `http://127.0.0.1:${port}`, apiKey }, 'mouth');
  const speech = keepPlaying(mouth, await opusTone(HERE_HZ, 0.3, 1000));
  cleanUps.push(() => speech.close());
  /** Amplitude of a tone in what is heard on IPv4. */
  const amplitude = (hz: number) => toneIn(joinPcm(listener.frames.slice(-25)), hz).amplitude;
  return { network, url: `http://[${network.addressHere}]:${port}`, apiKey, amplitude };
}

/** Returns Chromium of the machine, which takes the gateway's address for a secure one. */
async function makeChromium(network: Ipv6Network, url: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-chromium-'));
  cleanUps.push(() => rm(folder, { recursive: true }));
  const flags = [`--unsafely-treat-insecure-origin-as-secure=${url}`];
  return writeChromium(folder, network.command, flags);
}

describe.skipIf(!Hosts.arePossible)('a machine without IPv4', () => {
  test('has legacy clients and WebRTC clients that hear, and are heard on IPv4', async () => {
    const { network, url, apiKey, amplitude } = await openMachine();
    const visit = (peer: string, media: Visit['media'], toneHz: number) => {
      const visitor: Visit = {
        url,
        apiKey,
        peer,
        media,
        address: network.addressThere,
        toneHz,
        listensTo: 'mouth',
      };
      const command = [...network.command, process.execPath, VISITOR, JSON.stringify(visitor)];
      const [program, ...words] = command;
      const child = spawn(program!, words);
      const exited = once(child, 'exit');
      cleanUps.push(async () => {
        child.kill('SIGKILL');
        await exited;
      });
      const written = { text: '' };
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk: Buffer) => (written.text += chunk.toString()));
      }
      return written;
    };
    const legacy = visit('door phone', 'websocket', 1000);
    await eventually('the legacy client is heard', () => amplitude(1000) > 0.2);
    await eventually('it hears', () => legacy.text.includes(`hears ${HERE_HZ}`));
    const webrtc = visit('phone', 'webrtc', 1500);
    await eventually('the WebRTC client is heard', () => amplitude(1500) > 0.2);
    await eventually('it hears', () => webrtc.text.includes(`hears ${HERE_HZ}`));
  });

  test('has a browser that hears by WebRTC, and is heard on IPv4', async () => {
    const { network, url, apiKey, amplitude } = await openMachine();
    const executable = await makeChromium(network, url);
    const address = `${url}/?raw&transports=webrtc`;
    const browser = await TestBrowser.open(address, pcmTone(1000, 0.5, 10_000), { executable });
    cleanUps.push(() => browser.close());
    await browser.join('a', 'browser', apiKey);
    const hears = async () => peakHz(await browser.hear('mouth'));
    await expect.poll(hears, SETTLING).toBe(HERE_HZ);
    await expect.poll(() => amplitude(1000), SETTLING).toBeGreaterThan(0.2);
  });
});
