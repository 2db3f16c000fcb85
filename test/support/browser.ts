import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type BrowserServer, chromium, type Page } from 'playwright-core';
import { pcmTone } from './sound.ts';

const CHROMIUM = '/usr/bin/chromium';
/** 0.68 s at 48 kHz: the longest stretch that an AnalyserNode gives at once. */
const RECORDED_SAMPLES = 32_768;

/** A real Chromium whose microphone hears a tone, and the gateway's page in it. */
export class TestBrowser {
  readonly page: Page;
  readonly #browser: Browser;
  readonly #server: BrowserServer;
  readonly #folder: string;

  private constructor(server: BrowserServer, browser: Browser, page: Page, folder: string) {
    this.#server = server;
    this.#browser = browser;
    this.page = page;
    this.#folder = folder;
  }

  static async open(url: string, microphoneHz: number): Promise<TestBrowser> {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-browser-'));
    const microphone = join(folder, 'microphone.wav');
    await writeFile(microphone, wav(Buffer.concat(pcmTone(microphoneHz, 0.5, 10_000))));
    const server = await chromium.launchServer({
      executablePath: CHROMIUM,
      headless: true,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--autoplay-policy=no-user-gesture-required',
        '--use-fake-ui-for-media-stream',
        '--use-fake-device-for-media-stream',
        `--use-file-for-fake-audio-capture=${microphone}`,
      ],
    });
    const browser = await chromium.connect(server.wsEndpoint());
    const page = await browser.newPage({ viewport: { width: 900, height: 640 } });
    // Noise suppression takes a steady tone for noise.
    await page.goto(`${url}/?raw`);
    return new TestBrowser(server, browser, page, folder);
  }

  /** Fills in the page's form and presses Join; resolves when the room is shown. */
  async join(room: string, peer: string, apiKey: string): Promise<void> {
    await this.enter(room, peer, apiKey);
    await this.page.locator('#room-view').waitFor({ state: 'visible' });
  }

  async enter(room: string, peer: string, apiKey: string): Promise<void> {
    await this.page.fill('#room', room);
    await this.page.fill('#peer', peer);
    await this.page.fill('#api-key', apiKey);
    await this.page.click('#join');
  }

  /** What the page hears of a peer: the last 0.68 s, recorded `settleMs` after its track has come. */
  async hear(peer: string, settleMs = 1500): Promise<Float32Array> {
    await this.page.waitForFunction((name) => {
      const state = window.partyline?.state;
      return state?.name === 'in_room' && state.peers.get(name)?.track !== undefined;
    }, peer);
    const samples = await this.page.evaluate(
      async ({ name, settleMs: waitMs, count }) => {
        const state = window.partyline?.state;
        const track = state?.name === 'in_room' ? state.peers.get(name)?.track : undefined;
        if (!track) throw new Error('the track has gone');
        const context = new AudioContext({ sampleRate: 48_000 });
        const analyser = new AnalyserNode(context, { fftSize: count });
        context.createMediaStreamSource(new MediaStream([track])).connect(analyser);
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        const recorded = new Float32Array(count);
        analyser.getFloatTimeDomainData(recorded);
        await context.close();
        return [...recorded];
      },
      { name: peer, settleMs, count: RECORDED_SAMPLES },
    );
    return Float32Array.from(samples);
  }

  /** Ends the browser as a crash does. */
  kill(): Promise<void> {
    return this.#server.kill();
  }

  async close(): Promise<void> {
    await this.#browser.close();
    await this.#server.close();
    await rm(this.#folder, { recursive: true });
  }
}

/** 16-bit mono at 48 kHz in a RIFF file. */
function wav(samples: Buffer): Buffer {
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(36 + samples.length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(48_000, 24);
  head.writeUInt32LE(96_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36);
  head.writeUInt32LE(samples.length, 40);
  return Buffer.concat([head, samples]);
}
