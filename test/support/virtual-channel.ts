/** A port whose messages come without the event loop of Node, which virtual time knows nothing of. */
class Port extends EventTarget {
  other: Port | undefined;
  #isClosed = false;

  postMessage(): void {
    queueMicrotask(() => this.other?.receive());
  }

  receive(): void {
    if (!this.#isClosed) this.dispatchEvent(new Event('message'));
  }

  start(): void {}

  close(): void {
    this.#isClosed = true;
  }
}

/** A `MessageChannel` of such ports. */
export class VirtualChannel {
  readonly port1 = new Port();
  readonly port2 = new Port();

  constructor() {
    this.port2.other = this.port1;
  }
}
