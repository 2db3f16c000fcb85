import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { TestBrowser } from '../support/browser.ts';
import { TestClient } from '../support/client.ts';
import { openDelayingProxy } from '../support/delaying-proxy.ts';
import { commandsOf, PrintedCommand } from '../support/printed-command.ts';
import { eventually } from '../support/gateway.ts';
import { freePort } from '../support/free-ports.ts';
import { openLocalRegistry } from '../support/local-registry.ts';
import { TestProxy } from '../support/proxy.ts';
import { SETTLING } from '../support/settling.ts';
import {
  joinPcm,
  keepPlaying,
  lastSecondOf,
  pcmTone,
  peakHz,
  play,
  sampleMessages,
} from '../support/sound.ts';
import { rmsOf, spokenTrack } from '../support/speech.ts';
import { tapOutput } from '../support/tap-output.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The programs of `examples/`, run by the commands that the pages of docs print, behind a network of 100 ms each way. */

const PROJECT = join(import.meta.dirname, '../..');
const PCM = { audio: 'pcm_s16le;rate=48000;channels=1', room: 'kitchen' };
const DELAY_MS = 100;

const used = useGateway();

/** A way to the gateway on which everything takes a while, and that can be cut. */
async function openNetwork() {
  const proxy = used.keep(await TestProxy.open(used.gateway.url));
  const { url, close } = await openDelayingProxy(proxy.url, DELAY_MS);
  used.keep({ close: async () => close() });
  /** Breaks every connection; the next ones get through. */
  const breakConnections = () => {
    proxy.cut();
    proxy.leadTo(used.gateway.url);
  };
  return { url, breakConnections };
}

async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-examples-'));
  used.keep({ close: () => rm(folder, { recursive: true }) });
  return folder;
}

/** Runs a command as printed, until the end of the test. @param replaced what stands for other words in it */
function run(
  command: string,
  url: string,
  replaced: Record<string, string> = {},
  environment: Record<string, string> = {},
): PrintedCommand {
  const all = { 'http://127.0.0.1:3000': url, KEY: used.gateway.apiKey, ...replaced };
  return used.keep(new PrintedCommand(command, all, environment));
}

/** Makes a file of a tone of a minute: longer than all that happens while it is played. @param options of ffmpeg */
const makeTone = (file: string, frequencyHz: number, options: string[] = []) =>
  ffmpeg('-f', 'lavfi', '-i', `sine=frequency=${frequencyHz}:duration=60`, ...options, file);

/** Reads a file of sound as samples of 48 kHz. */
async function decode(file: string): Promise<Float32Array> {
  const samples = `${file}.raw`;
  await ffmpeg('-i', file, '-f', 's16le', '-ar', '48000', '-ac', '1', samples);
  return joinPcm([await readFile(samples)]);
}

const ffmpeg = (...words: string[]) => promisify(execFile)('ffmpeg', ['-v', 'error', ...words]);

/** Waits until a server of a command answers. @returns the address that is printed */
async function untilServed(port: string): Promise<string> {
  const address = `http://localhost:${port}/`;
  const isServed = async () => (await fetch(address).catch(() => undefined))?.status === 200;
  await eventually(`${address} is served`, isServed, SETTLING.timeout);
  return address;
}

/** Makes the link that *Invite* makes on the gateway's page. */
async function invite(url: string): Promise<string> {
  const response = await fetch(`${url}/api/invites`, {
    method: 'POST',
    headers: { authorization: `Bearer ${used.gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ room: 'kitchen' }),
  });
  return ((await response.json()) as { url: string }).url;
}

const expectHeard = (client: TestClient, frequencyHz: number, from = 0) =>
  vi.waitFor(() => {
    const frames = client.frames.slice(from).slice(-25);
    expect(frames).toHaveLength(25);
    expect(peakHz(joinPcm(frames))).toBe(frequencyHz);
  }, SETTLING);

/** True from 1 % of full scale on. */
const isLoud = (sample: number) => Math.abs(sample) > 0.01;

/** Plays a tone over and over. */
const speak = async (client: TestClient, frequencyHz: number) =>
  used.keep(keepPlaying(client, pcmTone(frequencyHz, 0.3, 10_000)));

/** Waits until one comes to the room whose name begins so. */
const arrival = (client: TestClient, name: string, from = 0) =>
  client.until(
    `arrival of ${name}`,
    () =>
      client.messages
        .slice(from)
        .find((message) => message.type === 'peer_joined' && message.peer.startsWith(name)),
    30_000,
  );

test('docs/connect-node.md: the bot says again what it heard, also after its connection broke', async () => {
  const [command = ''] = commandsOf('docs/connect-node.md');
  const { url, breakConnections } = await openNetwork();
  const client = await used.enter('Ada', PCM);
  const bot = run(command, url);
  await arrival(client, 'parrot');
  await play(client, pcmTone(700, 0.3, 1000));
  await expectHeard(client, 700);
  const told = client.messages.length;
  breakConnections();
  await arrival(client, 'parrot', told);
  const heard = client.frames.length;
  await play(client, pcmTone(900, 0.3, 1000));
  await expectHeard(client, 900, heard);
  await bot.interrupt();
  expect(bot.output).toMatch(/In the room kitchen.*Saying [\d.]+ s again.*Trying again in \d+ ms/s);
});

test('docs/connect-node.md: with a wrong key the bot ends, and says why', async () => {
  const [command = ''] = commandsOf('docs/connect-node.md');
  const { url } = await openNetwork();
  const bot = run(command, url, { KEY: 'pl_wrong' });
  expect(await bot.exitCode()).toBe(1);
  expect(bot.output).toMatch(/key/i);
  expect(bot.output).not.toContain('Trying again');
});

test('docs/connect-whip.md: the command makes a token with which a peer enters its room', async () => {
  const command = run(commandsOf('docs/connect-whip.md')[0]!, used.gateway.url);
  expect(await command.exitCode()).toBe(0);
  const answer = /\{"token".*\}/.exec(command.output)![0];
  const { token } = JSON.parse(answer) as { token: string };
  const query = { peer: 'ada', room: 'kitchen', token };
  const client = used.keep(await TestClient.connect(used.gateway.url, query));
  expect(await client.next('welcome')).toMatchObject({ peer: 'ada' });
  expect(await client.next('joined')).toMatchObject({ room: 'kitchen' });
});

/** Stands for the room of a command: a name that the gateway refuses, after it has let the program in. */
const REFUSED = { kitchen: '__x' };

test.each(['docs/connect-node.md', 'docs/connect-ffmpeg.md'])(
  '%s: with a room that is refused the program ends, and says why',
  async (page) => {
    const program = run(commandsOf(page)[0]!, used.gateway.url, REFUSED);
    expect(await program.exitCode()).toBe(1);
    expect(program.output).toMatch(/reserved/);
    expect(program.output).not.toContain('Trying again');
  },
);

describe('docs/connect-python.md', () => {
  const [, command = ''] = commandsOf('docs/connect-python.md');

  /** Runs it with a WAV file of a tone. */
  async function talk(url: string, apiKey = used.gateway.apiKey, replaced = {}) {
    const folder = await openFolder();
    const [played, recorded] = ['played.wav', 'recorded.wav'].map((name) => join(folder, name));
    await makeTone(played!, 800, ['-ar', '16000']);
    const changes = { KEY: apiKey, 'played.wav': played!, 'recorded.wav': recorded!, ...replaced };
    return { program: run(command, url, changes), recorded: recorded! };
  }

  test('plays a file, also on where its connection broke, and records what it hears', async () => {
    const { url, breakConnections } = await openNetwork();
    const client = await used.enter('Ada', PCM);
    const { program, recorded } = await talk(url);
    await arrival(client, 'python');
    await expectHeard(client, 800);
    const [told, heard] = [client.messages.length, client.frames.length];
    breakConnections();
    await arrival(client, 'python', told);
    expect(program.output).toContain('The connection broke. Trying again.');
    await expectHeard(client, 800, heard);
    await play(client, pcmTone(600, 0.3, 2000));
    await program.interrupt();
    expect(program.output).toMatch(/Recorded \d\.\d s/);
    expect(peakHz((await decode(recorded)).subarray(-48_000))).toBe(600);
  });

  test('connects again after an error right before its connection broke', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    used.keep({
      close: async () => {
        server.close();
      },
    });
    let connections = 0;
    server.on('connection', (socket) => {
      connections += 1;
      socket.send(JSON.stringify({ type: 'joined', room: 'kitchen' }));
      const error = { type: 'error', code: 'forbidden', message: 'Not you.', retryable: false };
      socket.send(JSON.stringify(error));
      setTimeout(() => socket.terminate(), 100);
    });
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { program } = await talk(`http://127.0.0.1:${port}`);
    await expect.poll(() => connections, SETTLING).toBeGreaterThan(1);
    await program.interrupt();
    expect(program.output).toContain('Recorded 0.0 s');
  });

  test('ends with the reason when nothing answers', async () => {
    const port = await freePort();
    const { program } = await talk(`http://127.0.0.1:${port}`);
    expect(await program.exitCode()).toBe(1);
    expect(program.output).toContain(`Cannot connect to http://127.0.0.1:${port}: `);
    expect(program.output).not.toContain('Traceback');
  });

  test('tells that it tries again while nothing answers any more', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    server.on('connection', (socket) => {
      server.close();
      socket.send(JSON.stringify({ type: 'joined', room: 'kitchen' }));
      setTimeout(() => socket.terminate(), 100);
    });
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { program } = await talk(`http://127.0.0.1:${port}`);
    await expect.poll(() => program.output, SETTLING).toMatch(/connect failed; .* seconds/);
    await program.interrupt();
    expect(program.output).toContain('The connection broke. Trying again.');
    expect(program.output).not.toContain('Traceback');
  });

  test('ends with the reason when its key is wrong', async () => {
    const { program } = await talk(used.gateway.url, 'pl_wrong');
    expect(await program.exitCode()).toBe(1);
    expect(program.output).toMatch(/key/i);
  });

  test('ends with the reason when its room is refused', async () => {
    const { program } = await talk(used.gateway.url, used.gateway.apiKey, REFUSED);
    expect(await program.exitCode()).toBe(1);
    expect(program.output).toMatch(/reserved/);
  });
});

test('docs/connect-ffmpeg.md: a file is heard in the room, and what is heard becomes a file', async () => {
  const [speaking = '', hearing = ''] = commandsOf('docs/connect-ffmpeg.md');
  const { url, breakConnections } = await openNetwork();
  const folder = await openFolder();
  const [music, room] = ['music.mp3', 'room.mp3'].map((name) => join(folder, name));
  await makeTone(music!, 800);
  const client = await used.enter('Ada', PCM);
  const ear = run(hearing, url, { 'room.mp3': room! });
  await arrival(client, 'pipe');
  await speak(client, 600);
  const from = client.messages.length;
  const mouth = run(speaking, url, { 'music.mp3': music! });
  await arrival(client, 'pipe', from);
  await expectHeard(client, 800);
  const told = client.messages.length;
  breakConnections();
  const pipesAgain = () =>
    client.messages
      .slice(told)
      .filter((message) => message.type === 'peer_joined' && message.peer.startsWith('pipe'));
  await client.until('both pipes', () => pipesAgain().length === 2 || undefined, 30_000);
  const heard = client.frames.length;
  await expectHeard(client, 800, heard);
  await vi.waitFor(() => expect(client.frames.length).toBeGreaterThan(heard + 100), SETTLING);
  await mouth.interrupt();
  await ear.interrupt();
  // The file is the quieter of the two that are heard.
  expect(peakHz((await decode(room!)).subarray(-144_000))).toBe(600);
});

test('docs/connect-ffmpeg.md: a file is heard to its end', async () => {
  const [speaking = ''] = commandsOf('docs/connect-ffmpeg.md');
  const { url } = await openNetwork();
  const file = join(await openFolder(), 'short.wav');
  // Its last frame is not whole.
  await ffmpeg('-f', 'lavfi', '-i', 'sine=frequency=800:duration=1.01', '-ar', '48000', file);
  const client = await used.enter('Ada', PCM);
  const mouth = run(speaking, url, { 'music.mp3': file });
  expect(await mouth.exitCode()).toBe(0);
  const heard = joinPcm(client.frames);
  const [first, last] = [heard.findIndex(isLoud), heard.findLastIndex(isLoud)];
  expect((last - first) / 48).toBeGreaterThan(990);
});

describe('in a browser', () => {
  /** Opens a page in a browser whose microphone hears words. */
  async function openBrowser(address: string): Promise<TestBrowser> {
    const { sound } = await spokenTrack({ words: 4, pauseMs: 300 });
    const format = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 } as const;
    return used.keep(await TestBrowser.open(address, sampleMessages(format, sound)));
  }

  /**
   * Opens a page, gives it an invitation that does not hold, which it must say and go no further, then one that does.
   */
  async function openPage(address: string, gatewayUrl: string): Promise<TestBrowser> {
    const browser = await openBrowser(address);
    await browser.page.addInitScript(tapOutput);
    await browser.page.reload();
    const sockets: string[] = [];
    browser.page.on('websocket', (socket) => sockets.push(socket.url()));
    const follow = async (link: string) => {
      await browser.page.fill('input', link);
      await browser.page.click('button');
    };
    await follow(`${gatewayUrl}/#invite=nothing`);
    await expect
      .poll(() => browser.page.locator('p, output').innerText(), SETTLING)
      .toMatch(/not valid, or has expired/);
    await follow(await invite(gatewayUrl));
    await expect.poll(() => sockets, SETTLING).not.toEqual([]);
    expect(sockets[0]).toContain('token=ey');
    return browser;
  }

  const expectBoth = async (browser: TestBrowser, client: TestClient) => {
    await vi.waitFor(async () => {
      expect(client.frames.length).toBeGreaterThan(100);
      expect(rmsOf(await lastSecondOf(client))).toBeGreaterThan(0.005);
    }, SETTLING);
    await used.enter('Grace', PCM).then((grace) => speak(grace, 600));
    await vi.waitFor(async () => {
      const tapped = await browser.page.evaluate(() => window.heard?.() ?? []);
      expect(peakHz(Float32Array.from(tapped))).toBe(600);
    }, SETTLING);
  };

  test('docs/connect-media-recorder.md: the page is heard and hears, also after its connection broke', async () => {
    const [command = ''] = commandsOf('docs/connect-media-recorder.md');
    const { url, breakConnections } = await openNetwork();
    const port = String(await freePort());
    run(command, url, { 8000: port });
    const client = await used.enter('Ada', { room: 'kitchen' });
    const browser = await openPage(await untilServed(port), url);
    await arrival(client, 'guest');
    await expectBoth(browser, client);
    const told = client.messages.length;
    breakConnections();
    await arrival(client, 'guest', told);
    const from = client.frames.length;
    await vi.waitFor(async () => {
      expect(client.frames.length).toBeGreaterThan(from + 100);
    }, SETTLING);
  });

  test('docs/connect-media-recorder.md: the page says why its room is refused, and does not come back', async () => {
    const [command = ''] = commandsOf('docs/connect-media-recorder.md');
    const port = String(await freePort());
    run(command, used.gateway.url, { 8000: port });
    const browser = await openBrowser(await untilServed(port));
    await browser.page.route('**/api/invites/redeem', async (route) => {
      const response = await route.fetch();
      await route.fulfill({
        response,
        json: { ...(await response.json()), room: REFUSED.kitchen },
      });
    });
    let sockets = 0;
    let closed = 0;
    browser.page.on('websocket', (socket) => {
      sockets += 1;
      socket.on('close', () => (closed += 1));
    });
    await browser.page.fill('input', await invite(used.gateway.url));
    await browser.page.click('button');
    await expect.poll(() => closed, SETTLING).toBe(1);
    expect(await browser.page.locator('p').innerText()).toMatch(/reserved/);
    expect(sockets).toBe(1);
  });

  test('docs/connect-page.md: the page is heard and hears', async () => {
    const [command = ''] = commandsOf('docs/connect-page.md');
    const { url } = await openNetwork();
    const folder = await openFolder();
    await cp(join(PROJECT, 'examples/page'), folder, { recursive: true });
    const registry = await openLocalRegistry(['mediasoup-client', 'esbuild'], PROJECT);
    used.keep({ close: async () => registry.close() });
    const port = String(await freePort());
    const replaced = { 'examples/page': folder, 8000: port };
    run(command, url, replaced, { HOME: folder, npm_config_registry: registry.url });
    const client = await used.enter('Ada', { room: 'kitchen' });
    const browser = await openPage(await untilServed(port), url);
    await arrival(client, 'guest');
    await expectBoth(browser, client);
    expect(await browser.page.locator('output').innerText()).toMatch(
      /^In the room kitchen, with Ada/,
    );
  });
});
