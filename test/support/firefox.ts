import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type Browser, launch, type Page } from 'puppeteer-core';
import type { SoundCard } from './sound-card.ts';
import { joinByForm } from './page-form.ts';
import { SETTLING } from './settling.ts';

/** Version of the tables of a profile's permissions. */
const PERMISSIONS_VERSION = 12;

/**
 * Debian's Firefox, and the gateway's page in it, which plays and records on a sound card. No preference of its media or its WebRTC is set: its user
 * has allowed the page the microphone once, and told Firefox to remember it.
 */
export class TestFirefox {
  readonly page: Page;
  readonly #browser: Browser;
  readonly #profile: string;

  private constructor(browser: Browser, page: Page, profile: string) {
    this.#browser = browser;
    this.page = page;
    this.#profile = profile;
  }

  /** @param address of a page, whose origin may use the microphone */
  static async open(address: string, soundCard: SoundCard): Promise<TestFirefox> {
    const profile = await mkdtemp(join(tmpdir(), 'partyline-firefox-'));
    let browser: Browser | undefined;
    try {
      rememberMicrophone(profile, new URL(address).origin);
      browser = await launch({
        browser: 'firefox',
        executablePath: '/usr/bin/firefox-esr',
        userDataDir: profile,
        env: { ...process.env, ...soundCard.environment },
      });
      const page = await browser.newPage();
      page.setDefaultTimeout(SETTLING.timeout);
      await page.evaluateOnNewDocument(installClock);
      await page.goto(address);
      return new TestFirefox(browser, page, profile);
    } catch (fault) {
      await browser?.close();
      await rm(profile, { recursive: true });
      throw fault;
    }
  }

  /** Fills in the page's form and presses Join; resolves when the room is shown. */
  join(room: string, peer: string, apiKey: string): Promise<void> {
    return joinByForm(this.page, room, peer, apiKey);
  }

  /** Puts the clock of the page, `performance.now()`, forward. Its timers stay as they are. */
  async pass(ms: number): Promise<void> {
    await this.page.evaluate(
      (byMs) => (Reflect.get(window, 'pass') as (ms: number) => void)(byMs),
      ms,
    );
  }

  async close(): Promise<void> {
    await this.#browser.close();
    await rm(this.#profile, { recursive: true });
  }
}

/** Makes `performance.now()` a clock that `pass()` puts forward. Runs in Firefox, before the page. */
function installClock(): void {
  const now = performance.now.bind(performance);
  let aheadMs = 0;
  performance.now = () => now() + aheadMs;
  Object.assign(window, { pass: (ms: number) => (aheadMs += ms) });
}

/** Writes into a new profile that an origin may use the microphone, as Firefox does when its user has it remembered. */
function rememberMicrophone(profile: string, origin: string): void {
  const permissions = new DatabaseSync(join(profile, 'permissions.sqlite'));
  permissions.exec(`
    PRAGMA user_version = ${PERMISSIONS_VERSION};
    CREATE TABLE moz_perms (
      id INTEGER PRIMARY KEY, origin TEXT, type TEXT, permission INTEGER,
      expireType INTEGER, expireTime INTEGER, modificationTime INTEGER
    )`);
  const columns = 'origin, type, permission, expireType, expireTime, modificationTime';
  // 1: allowed; 0 and 0: for ever.
  const values = "?, 'microphone', 1, 0, 0, ?";
  permissions
    .prepare(`INSERT INTO moz_perms (${columns}) VALUES (${values})`)
    .run(origin, Date.now());
  permissions.close();
}
