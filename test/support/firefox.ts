import { type Browser, launch, type Page } from 'puppeteer-core';
import type { SoundCard } from './sound-card.ts';
import { joinByForm } from './page-form.ts';
import { SETTLING } from './settling.ts';

/**
 * Debian's Firefox, and the gateway's page in it. Nothing of its WebRTC is set otherwise than users have it; its microphone gives a tone
 * of 1000 Hz, or hears what a sound card does, for which nobody is asked.
 */
export class TestFirefox {
  readonly page: Page;
  readonly #browser: Browser;

  private constructor(browser: Browser, page: Page) {
    this.#browser = browser;
    this.page = page;
  }

  /** @param soundCard what it plays on and records from; without one, it runs no AudioContext */
  static async open(address: string, soundCard?: SoundCard): Promise<TestFirefox> {
    const browser = await launch({
      browser: 'firefox',
      executablePath: '/usr/bin/firefox-esr',
      env: { ...process.env, ...soundCard?.environment },
      extraPrefsFirefox: {
        'media.navigator.permission.disabled': true,
        'media.navigator.streams.fake': soundCard === undefined,
      },
    });
    try {
      const page = await browser.newPage();
      page.setDefaultTimeout(SETTLING.timeout);
      await page.goto(address);
      return new TestFirefox(browser, page);
    } catch (fault) {
      await browser.close();
      throw fault;
    }
  }

  /** Fills in the page's form and presses Join; resolves when the room is shown. */
  join(room: string, peer: string, apiKey: string): Promise<void> {
    return joinByForm(this.page, room, peer, apiKey);
  }

  /**
   * Level of the audio that the page plays, from 0 to 1 (full scale), over half a second. Without a sound
   * card Firefox runs no AudioContext, so that its own statistics must say it.
   */
  playedLevel(): Promise<number> {
    return this.page.evaluate(async () => {
      const read = async () => {
        const stats = await window.partyline?.rtcStats();
        const played = { energy: 0, seconds: 0 };
        for (const report of stats?.recv.values() ?? []) {
          if ((report as { type: string }).type !== 'inbound-rtp') continue;
          const { totalAudioEnergy, totalSamplesDuration } = report as RTCInboundRtpStreamStats;
          played.energy += totalAudioEnergy ?? 0;
          played.seconds += totalSamplesDuration ?? 0;
        }
        return played;
      };
      const before = await read();
      await new Promise((resolve) => setTimeout(resolve, 500));
      const after = await read();
      return Math.sqrt((after.energy - before.energy) / (after.seconds - before.seconds || 1));
    });
  }

  close(): Promise<void> {
    return this.#browser.close();
  }
}
