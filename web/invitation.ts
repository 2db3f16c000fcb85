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

  /**
   * The program that draws the code is loaded now: few who open the page need it.
   * @param expiresAt ISO 8601
   */
  async show(url: string, expiresAt: string): Promise<void> {
    const { drawQrCode } = await import('./qr-code.ts');
    this.#link.value = url;
    this.#code.src = drawQrCode(url);
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
