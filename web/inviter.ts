import { makeInvite } from './invite.ts';
import type { Entry, Page } from './page-state.ts';
import { errorWords } from './words.ts';

/** Makes the invitations of one visit, one at a time, and shows them. */
export class Inviter {
  readonly #page: Page;
  readonly #entry: Entry;
  readonly #ending: AbortSignal;
  #isInviting = false;

  /** @param ending aborts when the visit is over: nothing is shown from then on */
  constructor(page: Page, entry: Entry, ending: AbortSignal) {
    this.#page = page;
    this.#entry = entry;
    this.#ending = ending;
  }

  /**
   * Makes a link into the room, and shows it with a QR code; the program that draws the code is loaded now, because few need it.
   * Without effect while another is being made. Never rejects: faults are shown.
   */
  async invite(): Promise<void> {
    if (this.#isInviting) return;
    this.#isInviting = true;
    try {
      const { url, expiresAt } = await makeInvite(this.#entry.apiKey, this.#entry.room);
      const { drawQrCode } = await import('./qr-code.ts').catch(() => {
        throw new Error('A part of this page cannot be loaded. Reload the page.');
      });
      if (this.#ending.aborted) return;
      this.#page.show({ invitation: { url, expiresAt, code: drawQrCode(url) } });
    } catch (error) {
      if (!this.#ending.aborted) this.#page.showNotice(errorWords(error));
    } finally {
      this.#isInviting = false;
    }
  }
}
