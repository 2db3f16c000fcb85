import { type Browser, launch, type Page } from 'puppeteer-core';
import type { SoundCard } from './sound-card.ts';
import { joinByForm } from './page-form.ts';
import { SETTLING } from './settling.ts';

/** Arguments of puppeteer's that browsers on desktops do not have: they mute the speakers, and let hidden pages run as others do. */
const NOT_OF_DESKTOPS = [
  '--mute-audio',
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  '--disable-renderer-backgrounding',
];

/** Time for which a page is hidden before the browser throttles its timers, s. */
const THROTTLED_AFTER_S = 10;

/**
 * Chromium as it is on a desktop: it plays and records on a sound card, and sleeps when the machine does. It is driven by puppeteer, because Playwright
 * keeps all pages in front.
 */
export class DesktopBrowser {
  readonly page: Page;
  readonly #browser: Browser;

  private constructor(browser: Browser, page: Page) {
    this.#browser = browser;
    this.page = page;
  }

  static async open(address: string, soundCard: SoundCard): Promise<DesktopBrowser> {
    const browser = await launch({
      browser: 'chrome',
      executablePath: '/usr/bin/chromium',
      headless: true,
      env: { ...process.env, ...soundCard.environment },
      ignoreDefaultArgs: NOT_OF_DESKTOPS,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--autoplay-policy=no-user-gesture-required',
        '--use-fake-ui-for-media-stream',
        // Hidden pages run their timers once a minute from then on; by default after 5 minutes.
        `--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/${THROTTLED_AFTER_S}`,
      ],
    });
    try {
      const page = await browser.newPage();
      page.setDefaultTimeout(SETTLING.timeout);
      await page.goto(address);
      return new DesktopBrowser(browser, page);
    } catch (fault) {
      await browser.close();
      throw fault;
    }
  }

  /** Fills in the page's form and presses a button; resolves when the room is shown. */
  join(room: string, peer: string, apiKey: string, button = '#join'): Promise<void> {
    return joinByForm(this.page, room, peer, apiKey, button);
  }

  /** Opens another tab in front of the page. */
  async hide(): Promise<void> {
    const other = await this.#browser.newPage();
    await other.bringToFront();
  }

  /** Stops the browser, all of its processes, as a laptop that falls asleep does. */
  sleep(): void {
    this.#signal('SIGSTOP');
  }

  wake(): void {
    this.#signal('SIGCONT');
  }

  close(): Promise<void> {
    return this.#browser.close();
  }

  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#browser.process() ?? {};
    if (pid === undefined) throw new Error('the browser has gone');
    // It leads a group of its own.
    process.kill(-pid, signal);
  }
}
