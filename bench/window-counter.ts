/** Counts frames while a window is open. */
export class WindowCounter {
  isOpen = false;
  sent = 0;
  received = 0;
  receivedBytes = 0;
  /** Length of the windows so far, ms. */
  ms = 0;
  #openedMs = 0;

  open(): void {
    this.#openedMs = performance.now();
    this.isOpen = true;
  }

  /** @returns length of the window, ms */
  close(): number {
    this.isOpen = false;
    const windowMs = performance.now() - this.#openedMs;
    this.ms += windowMs;
    return windowMs;
  }

  countSent(): void {
    if (this.isOpen) this.sent += 1;
  }

  countReceived(bytes: number): void {
    if (!this.isOpen) return;
    this.received += 1;
    this.receivedBytes += bytes;
  }
}
