import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import { Ipv6Network } from '../support/ipv6-network.ts';
import { GatewayProcess } from '../support/process.ts';
import { joinPcm, keepPlaying, opusTone, toneIn } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';
import type { Visit } from '../support/visitor.ts';

const { enter, cleanUps } = useStack();

const VISITOR = fileURLToPath(new URL('../support/visitor.ts', import.meta.url));
const PCM = { audio: 'pcm_s16le;rate=48000;channels=1' };
const HERE_HZ = 600;

describe.skipIf(!Hosts.arePossible)('a machine without IPv4', () => {
  test('has legacy clients and WebRTC clients that hear, and are heard on IPv4', async () => {
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

    const visit = (peer: string, media: Visit['media'], toneHz: number) => {
      const visitor: Visit = {
        url: `http://[${network.addressHere}]:${port}`,
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
    const amplitude = (hz: number) => toneIn(joinPcm(listener.frames.slice(-25)), hz).amplitude;
    const legacy = visit('door phone', 'websocket', 1000);
    await eventually('the legacy client is heard', () => amplitude(1000) > 0.2);
    await eventually('it hears', () => legacy.text.includes(`hears ${HERE_HZ}`));
    const browser = visit('phone', 'webrtc', 1500);
    await eventually('the WebRTC client is heard', () => amplitude(1500) > 0.2);
    await eventually('it hears', () => browser.text.includes(`hears ${HERE_HZ}`));
  });
});
