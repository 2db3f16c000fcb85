import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium, type Locator, type Page } from 'playwright-core';
import { afterAll } from 'vitest';
import { SETTLING } from './settling.ts';
import { pcmTone } from './sound.ts';
import { wavFile } from './wav.ts';

const CHROMIUM = '/usr/bin/chromium';
/** 0.68 s at 48 kHz: the longest stretch that an AnalyserNode gives at once. */
const RECORDED_SAMPLES = 32_768;
const MICROPHONE = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 } as const;

declare global {
  interface Window {
    lastSocket?: WebSocket;
  }
}

/** Settings of one browser of a test. */
type BrowserOptions = {
  /** The program that is Chromium. */
  executable?: string;
  /** Lets WebRTC connect through TURN servers only. */
  isRelayed?: boolean;
  /** Accepts any certificate, as a person does who clicks the warning away. */
  acceptsCertificate?: boolean;
  /**
   * Calls itself Chrome, as with a window. Pages over plain HTTP have nothing but this name to know a browser by, and mediasoup-client does not
   * know the one of Chromium without a window.
   */
  isNamedChrome?: boolean;
  /** Scripts of other origins than the page's run, such as those of a test. */
  runsForeignScripts?: boolean;
  /** Has a process of its own, even in a file that shares browsers: it can be killed. */
  isAlone?: boolean;
};

/** A Chromium that runs. */
type Running = { browser: Browser; kill: () => Promise<void>; close: () => Promise<void> };

/** Browsers of a file that shares them, by what their microphones hear. */
let shared: Map<string, Promise<Running>> | undefined;

/**
 * Lets all tests of a file open their pages in one Chromium for each microphone: its start takes longer than most of what they do. Each page has
 * storage of its own.
 */
export function shareBrowsers(): void {
  const ofFile = new Map<string, Promise<Running>>();
  shared = ofFile;
  afterAll(async () => {
    shared = undefined;
    const closing = [...ofFile.values()].map(async (running) => (await running).close());
    const failed = (await Promise.allSettled(closing)).find(({ status }) => status === 'rejected');
    if (failed) throw (failed as PromiseRejectedResult).reason;
  });
}

/** Runs in the page, before anything else. */
function relayOnly(): void {
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(configuration?: RTCConfiguration) {
      super({ ...configuration, iceTransportPolicy: 'relay' });
    }
  };
}

/** Runs in the page, before anything else. */
function keepSocket(): void {
  window.WebSocket = class extends WebSocket {
    override send(data: string): void {
      window.lastSocket = this;
      super.send(data);
    }
  };
}

/** A real Chromium, whose microphone hears what the test gives it, and the gateway's page in it. */
export class TestBrowser {
  readonly page: Page;
  readonly #opened: AsyncDisposableStack;
  readonly #kill: (() => Promise<void>) | undefined;

  private constructor(
    page: Page,
    opened: AsyncDisposableStack,
    kill: (() => Promise<void>) | undefined,
  ) {
    this.page = page;
    this.#opened = opened;
    this.#kill = kill;
  }

  /**
   * Opens the page so that the microphone's tone arrives as it is: noise suppression takes a steady tone for noise.
   * @param transports those that the page may use: on a busy machine WebRTC may be so slow that the page would give it up
   */
  static openRaw(
    url: string,
    microphoneHz: number,
    transports = 'webrtc',
    options: BrowserOptions = {},
  ): Promise<TestBrowser> {
    const address = `${url}/?raw&transports=${transports}`;
    return TestBrowser.open(address, pcmTone(microphoneHz, 0.5, 10_000), options);
  }

  /** @param microphone 16-bit mono at 48 kHz, which the microphone hears over and over; without it, none is allowed */
  static async open(
    address: string,
    microphone?: Buffer[],
    {
      executable = CHROMIUM,
      isRelayed = false,
      acceptsCertificate = false,
      isNamedChrome = false,
      runsForeignScripts = false,
      isAlone = !shared,
    }: BrowserOptions = {},
  ): Promise<TestBrowser> {
    const opened = new AsyncDisposableStack();
    try {
      const running = isAlone
        ? opened.adopt(await startBrowser(executable, microphone), (part) => part.close())
        : await sharedBrowser(executable, microphone);
      const { browser } = running;
      const page = await browser.newPage({
        viewport: { width: 1000, height: 700 },
        ignoreHTTPSErrors: acceptsCertificate,
        bypassCSP: runsForeignScripts,
        ...(isNamedChrome && { userAgent: nameOfChrome(browser.version()) }),
      });
      opened.defer(() => page.context().close());
      page.setDefaultTimeout(SETTLING.timeout);
      await page.addInitScript(keepSocket);
      if (isRelayed) await page.addInitScript(relayOnly);
      await page.goto(address);
      return new TestBrowser(page, opened, isAlone ? running.kill : undefined);
    } catch (fault) {
      await opened.disposeAsync();
      throw fault;
    }
  }

  /** Fills in the page's form and presses Join; resolves when the room is shown. */
  async join(room: string, peer: string, apiKey: string): Promise<void> {
    await this.enter(room, peer, apiKey);
    await this.page.locator('#room-view').waitFor({ state: 'visible' });
  }

  /** Fills in the page's form and presses a button; does not wait for what comes of it. */
  async enter(room: string, peer: string, apiKey: string, button = '#join'): Promise<void> {
    await this.page.fill('#room', room);
    await this.page.fill('#peer', peer);
    await this.page.fill('#api-key', apiKey);
    await this.page.click(button);
  }

  /** Sends a message on the page's own connection, behind its back. */
  async say(message: object): Promise<void> {
    await this.page.evaluate((text) => window.lastSocket?.send(text), JSON.stringify(message));
  }

  /** The entry for a peer in the page's list of who is there. */
  person(peer: string): Locator {
    return this.page.locator(`.person[data-peer="${peer}"]`);
  }

  /** The names in the page's list of who is there, in its order. */
  names(): Promise<string[]> {
    return this.page.locator('.person .name').allInnerTexts();
  }

  /** Records the sum of some peers as the page hears it: 0.68 s, as soon as they can be heard without a gap. */
  async hear(...peers: string[]): Promise<Float32Array> {
    await this.page.waitForFunction((names) => {
      const state = window.partyline?.state;
      return state?.name === 'in_room' && names.every((name) => state.peers.get(name)?.track);
    }, peers);
    const samples = await this.page.evaluate(record, { peers, count: RECORDED_SAMPLES });
    return Float32Array.from(samples);
  }

  /** Records the sum of all others as the page hears it over the WebSocket: 0.68 s, as soon as there is no gap in it. */
  async hearMix(): Promise<Float32Array> {
    await this.page.waitForFunction(() => window.partyline?.mixTrack);
    const wanted: Recording = { peers: 'mix', count: RECORDED_SAMPLES };
    const samples = await this.page.evaluate(record, wanted);
    return Float32Array.from(samples);
  }

  /**
   * Listens to a peer from now on.
   * @returns what ends that, and tells the longest silence in it, ms
   */
  async listenTo(peer: string): Promise<() => Promise<number>> {
    const ear = await this.page.evaluateHandle(listen, peer);
    return () => ear.evaluate((open) => open.close());
  }

  /** Number of RTP packets that the page has sent, and the time at which they were counted, ms of `Date.now()`. */
  packetsSent(): Promise<{ packets: number; wallMs: number }> {
    return this.page.evaluate(async () => {
      const stats = await window.partyline?.rtcStats();
      const reports: { type: string; packetsSent?: number }[] = [...(stats?.send.values() ?? [])];
      const packets = reports.find(({ type }) => type === 'outbound-rtp')?.packetsSent ?? 0;
      return { packets, wallMs: Date.now() };
    });
  }

  /** Ends the browser, which `isAlone`, as a crash does. */
  async kill(): Promise<void> {
    if (!this.#kill) throw new Error('other pages of this file may be open in this browser');
    await this.#kill();
  }

  close(): Promise<void> {
    return this.#opened.disposeAsync();
  }
}

const nameOfChrome = (version: string) =>
  `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${version} Safari/537.36`;

const ALLOW = '--use-fake-ui-for-media-stream';
const DENY = '--deny-permission-prompts';
const hearing = (file: string) => `--use-file-for-fake-audio-capture=${file}`;

/** Starts a Chromium whose microphone hears this; without it, none is allowed. */
async function startBrowser(
  executable: string,
  microphone: Buffer[] | undefined,
): Promise<Running> {
  const opened = new AsyncDisposableStack();
  try {
    const folder = opened.adopt(await mkdtemp(join(tmpdir(), 'partyline-browser-')), (path) =>
      rm(path, { recursive: true }),
    );
    const microphoneFile = join(folder, 'microphone.wav');
    if (microphone) await writeFile(microphoneFile, wavFile(MICROPHONE, Buffer.concat(microphone)));
    const permission = microphone ? [ALLOW, hearing(microphoneFile)] : [DENY];
    const server = opened.adopt(await launch(executable, permission), (part) => part.close());
    const browser = opened.adopt(await chromium.connect(server.wsEndpoint()), (part) =>
      part.close(),
    );
    return { browser, kill: () => server.kill(), close: () => opened.disposeAsync() };
  } catch (fault) {
    await opened.disposeAsync();
    throw fault;
  }
}

/** The Chromium of this file whose microphone hears this; it is started when it is first asked for. */
function sharedBrowser(executable: string, microphone: Buffer[] | undefined): Promise<Running> {
  const browsers = shared!;
  const hash = createHash('sha1');
  for (const part of microphone ?? []) hash.update(part);
  const key = `${executable} ${microphone ? hash.digest('hex') : 'denied'}`;
  let running = browsers.get(key);
  if (!running) {
    running = startBrowser(executable, microphone);
    browsers.set(key, running);
    // The next test may try again.
    const forget = () => browsers.delete(key);
    running.then(({ browser }) => browser.on('disconnected', forget), forget);
  }
  return running;
}

const launch = (executablePath: string, permission: string[]) =>
  chromium.launchServer({
    executablePath,
    headless: true,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--autoplay-policy=no-user-gesture-required',
      '--use-fake-device-for-media-stream',
      ...permission,
    ],
  });

type Recording = { peers: string[] | 'mix'; count: number };

/** Runs in the page: the sum of the peers' tracks, or the track of the mix, once there is sound in every 20 ms of it. */
async function record({ peers, count }: Recording): Promise<number[]> {
  const context = new AudioContext({ sampleRate: 48_000 });
  try {
    const analyser = new AnalyserNode(context, { fftSize: count });
    const state = window.partyline?.state;
    const others = state?.name === 'in_room' ? state.peers : undefined;
    const tracks =
      peers === 'mix'
        ? [window.partyline?.mixTrack]
        : peers.map((peer) => others?.get(peer)?.track);
    for (const track of tracks) {
      if (!track) throw new Error(`a track of ${String(peers)} has gone`);
      context.createMediaStreamSource(new MediaStream([track])).connect(analyser);
    }
    const recorded = new Float32Array(count);
    const isWhole = () => {
      for (let start = 0; start + 960 <= count; start += 960) {
        const frame = recorded.subarray(start, start + 960);
        if (!frame.some((sample) => Math.abs(sample) > 0.01)) return false;
      }
      return true;
    };
    const deadlineMs = performance.now() + 30_000;
    do {
      if (performance.now() > deadlineMs) throw new Error(`no whole sound of ${String(peers)}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
      analyser.getFloatTimeDomainData(recorded);
    } while (!isWhole());
    return [...recorded];
  } finally {
    await context.close();
  }
}

/** Runs in the page: looks again and again at the last 0.68 s of what is heard of a peer, once there is sound in all of it. */
async function listen(peer: string) {
  const state = window.partyline?.state;
  const track = state?.name === 'in_room' ? state.peers.get(peer)?.track : undefined;
  if (!track) throw new Error(`${peer} is not heard`);
  const context = new AudioContext({ sampleRate: 48_000 });
  const analyser = new AnalyserNode(context, { fftSize: 32_768 });
  context.createMediaStreamSource(new MediaStream([track])).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const longestSilenceMs = () => {
    analyser.getFloatTimeDomainData(samples);
    let [quietSamples, longestSamples] = [0, 0];
    for (const sample of samples) {
      quietSamples = Math.abs(sample) > 0.01 ? 0 : quietSamples + 1;
      longestSamples = Math.max(longestSamples, quietSamples);
    }
    return longestSamples / 48;
  };
  const deadlineMs = performance.now() + 30_000;
  while (longestSilenceMs() > 20) {
    if (performance.now() > deadlineMs) throw new Error(`no whole sound of ${peer}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  let longestMs = 0;
  const look = () => (longestMs = Math.max(longestMs, longestSilenceMs()));
  const timer = setInterval(look, 100);
  const close = async () => {
    clearInterval(timer);
    look();
    await context.close();
    return longestMs;
  };
  return { close };
}
