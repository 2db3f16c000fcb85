import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { WebmReader } from '../../src/audio/ingest/webm-reader.ts';
import { TestBrowser } from './browser.ts';
import { TestFirefox } from './firefox.ts';
import { decodeOpus, joinPcm, opusTone, pcmTone, tone } from './sound.ts';
import { SoundCard } from './sound-card.ts';
import { WhipClient } from './whip-client.ts';

/** Peers that speak over WHIP and hear over WHEP, each by another WebRTC stack. */

/** Room of a gateway that a peer joins, under one name for both halves. */
export type StackTarget = { url: string; apiKey: string; room: string; peer: string };

export type StackPeer = {
  /** Returns the sound that it heard last, decoded by the stack, at 48 kHz; shorter or empty if it has heard less. */
  heard(): Promise<Float32Array>;
  close(): Promise<void>;
};

declare global {
  interface Window {
    /** Set by stacks/page.html when it is connected. */
    record?: (ms: number) => Promise<string>;
    /** Restarts the ICE of both halves; resolves with the status of each answer. */
    restart?: () => Promise<number[]>;
  }
}

/** Half a second is enough to tell one tone from another. */
const HEARD_SAMPLES = 24_000;
const RECORDED_MS = 1000;
const CONNECT_TIMEOUT_MS = 30_000;
/** Python of Debian, whose packages are not there for another Python in PATH. */
const PYTHON = '/usr/bin/python3';

const require = createRequire(import.meta.url);

const addressOf = (kind: 'whip' | 'whep', { url, room, peer }: StackTarget) =>
  `${url}/${kind}/${room}?peer=${peer}`;

const fileOf = (name: string) => new URL(`stacks/${name}`, import.meta.url).pathname;

/** werift, in this process. */
export async function openWerift(target: StackTarget, hz: number): Promise<StackPeer> {
  const query = `/${target.room}?peer=${target.peer}`;
  const speaker = await WhipClient.connect('whip', target, `/whip${query}`);
  const player = await WhipClient.connect('whep', target, `/whep${query}`);
  speaker.talk(await opusTone(hz, 0.3, 1000));
  return {
    heard: async () => {
      const payloads = player.heard.slice(-50).map(({ payload }) => payload);
      return (await decodeOpus(payloads)).slice(-HEARD_SAMPLES);
    },
    close: async () => {
      await Promise.all([speaker.close(), player.close()]);
    },
  };
}

/** A process that writes what it hears to stdout, as 16-bit PCM. */
class StackProcess implements StackPeer {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  #heard = Buffer.alloc(0);
  #errors = '';

  constructor(command: [program: string, file: string], target: StackTarget, hz: number) {
    const addresses = [addressOf('whip', target), addressOf('whep', target)];
    const [program, ...words] = [...command, ...addresses, target.apiKey, String(hz)];
    this.#child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#exited = once(this.#child, 'exit');
    this.#child.stdout?.on('data', (bytes: Buffer) => {
      this.#heard = Buffer.concat([this.#heard, bytes]).subarray(-2 * HEARD_SAMPLES);
    });
    this.#child.stderr?.on('data', (bytes: Buffer) => (this.#errors += bytes.toString()));
  }

  heard(): Promise<Float32Array> {
    if (this.#child.exitCode !== null) throw new Error(`it has ended: ${this.#errors}`);
    return Promise.resolve(joinPcm([this.#heard]));
  }

  async close(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }
}

export const openAiortc = (target: StackTarget, hz: number): Promise<StackPeer> =>
  Promise.resolve(new StackProcess([PYTHON, fileOf('aiortc_peer.py')], target, hz));

export const openGStreamer = (target: StackTarget, hz: number): Promise<StackPeer> =>
  Promise.resolve(new StackProcess([PYTHON, fileOf('gstreamer_peer.py')], target, hz));

/** libwebrtc in Node, in a process of its own: what it breaks is not the test. */
export const openNodeWebRtc = (target: StackTarget, hz: number): Promise<StackPeer> => {
  const { pathname } = new URL('stacks/node-webrtc-peer.ts', import.meta.url);
  return Promise.resolve(new StackProcess([process.execPath, pathname], target, hz));
};

/** A peer that can restart the ICE of both halves; resolves with the status of each answer. */
export type RestartingPeer = StackPeer & { restart(): Promise<number[] | undefined> };

/** `whip-whep` in Chromium, whose microphone hears the tone. */
export async function openChromium(target: StackTarget, hz: number): Promise<RestartingPeer> {
  const site = await openSite();
  const browser = await TestBrowser.open(site.pageFor(target), pcmTone(hz, 0.3, 10_000));
  const ready = browser.page.waitForFunction(() => window.record !== undefined, undefined, {
    timeout: CONNECT_TIMEOUT_MS,
  });
  const peer = {
    heard: async () =>
      decodeRecorded(await browser.page.evaluate((ms) => window.record?.(ms), RECORDED_MS)),
    restart: () => browser.page.evaluate(() => window.restart?.()),
    close: async () => {
      await browser.close();
      await site.close();
    },
  };
  return closedUnless(ready, peer);
}

/** `whip-whep` in Firefox, whose microphone hears the tone. */
export async function openFirefox(target: StackTarget, hz: number): Promise<StackPeer> {
  const card = await SoundCard.open();
  card.keepSpeaking(tone(hz, 0.3, 1000));
  const site = await openSite();
  const firefox = await TestFirefox.open(site.pageFor(target), card);
  const ready = firefox.page.waitForFunction(() => window.record !== undefined, {
    timeout: CONNECT_TIMEOUT_MS,
  });
  const peer = {
    heard: async () =>
      decodeRecorded(await firefox.page.evaluate((ms) => window.record?.(ms), RECORDED_MS)),
    close: async () => {
      await firefox.close();
      await site.close();
      await card.close();
    },
  };
  return closedUnless(ready, peer);
}

async function closedUnless<T extends StackPeer>(ready: Promise<unknown>, peer: T): Promise<T> {
  try {
    await ready;
    return peer;
  } catch (fault) {
    await peer.close();
    throw fault;
  }
}

/** A web site of another origin than the gateway's: the page of stacks/page.html and the package `whip-whep`. */
async function openSite() {
  const files = new Map([
    ['/', { path: fileOf('page.html'), type: 'text/html' }],
    ['/whip.js', { path: require.resolve('whip-whep/whip.js'), type: 'text/javascript' }],
    ['/whep.js', { path: require.resolve('whip-whep/whep.js'), type: 'text/javascript' }],
  ]);
  const server = createServer((request, response) => {
    const file = files.get(new URL(request.url ?? '', 'http://site').pathname);
    if (!file) {
      response.writeHead(404).end();
      return;
    }
    readFile(file.path).then(
      (bytes) => response.writeHead(200, { 'content-type': file.type }).end(bytes),
      (fault: unknown) => response.writeHead(500).end(String(fault)),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return {
    pageFor: (target: StackTarget): string => {
      const [whip, whep] = [addressOf('whip', target), addressOf('whep', target)];
      const query = new URLSearchParams({ whip, whep, key: target.apiKey });
      return `http://127.0.0.1:${port}/?${query.toString()}`;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Decodes WebM of a MediaRecorder. */
async function decodeRecorded(base64: string | undefined): Promise<Float32Array> {
  const packets: Buffer[] = [];
  new WebmReader((packet) => packets.push(packet)).push(Buffer.from(base64 ?? '', 'base64'));
  return (await decodeOpus(packets)).slice(-HEARD_SAMPLES);
}
