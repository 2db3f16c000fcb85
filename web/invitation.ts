import { encodeQR } from 'qr';
import { element } from './element.ts';

/** The dialog that shows an invitation: a QR code, and the link to copy. */
export class Invitation {
  readonly #dialog = element('invitation', HTMLDialogElement);
  readonly #link = element('invitation-link', HTMLInputElement);
  readonly #code = element('invitation-code', HTMLImageElement);
  readonly #status = element('invitation-status', HTMLElement);

  constructor() {
    element('invitation-copy', HTMLButtonElement).addEventListener('click', () => {
      void this.#copy();
    });
    element('invitation-close', HTMLButtonElement).addEventListener('click', () => this.close());
  }

  /** @param expiresAt ISO 8601 */
  show(url: string, expiresAt: string): void {
    this.#link.value = url;
    const picture = encodeQR(url, 'svg', { ecc: 'low', border: 4 });
    this.#code.src = `data:image/svg+xml,${encodeURIComponent(picture)}`;
    const until = new Date(expiresAt).toLocaleString([], {
      dateStyle: 'medium',
      timeStyle: 'short',
    });
    this.#status.textContent = `Whoever has this link can join until ${until}.`;
    this.#dialog.showModal();
    this.#link.select();
  }

  close(): void {
    this.#dialog.close();
  }

  async #copy(): Promise<void> {
    this.#link.select();
    try {
      await navigator.clipboard.writeText(this.#link.value);
      this.#status.textContent = 'The link has been copied.';
    } catch {
      // Browsers give no clipboard to pages over plain HTTP.
      this.#status.textContent = 'The link is selected: copy it with the keyboard.';
    }
  }
}
