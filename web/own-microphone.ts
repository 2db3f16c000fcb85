/** The microphone of a visit. Only the last of several attempts counts: browsers answer in any order. */
export class OwnMicrophone<Device extends { close: () => void }> {
  readonly #openDevice: (deviceId: string) => Promise<Device>;
  #current: Device | undefined;
  /** Number of the last attempt. */
  #attempt = 0;
  #isOpening = false;

  /** @param openDevice rejects if there is no such microphone, or it may not be used */
  constructor(openDevice: (deviceId: string) => Promise<Device>) {
    this.#openDevice = openDevice;
  }

  get current(): Device | undefined {
    return this.#current;
  }

  /** True until the last attempt is answered. */
  get isOpening(): boolean {
    return this.#isOpening;
  }

  /**
   * Opens a microphone, and closes the one that it replaces; if that fails, the one before stays.
   * @param deviceId empty for the default one
   * @returns undefined if another attempt, or `close()`, came before the answer
   * @throws {DOMException} the last attempt failed
   */
  async open(deviceId: string): Promise<Device | undefined> {
    const attempt = (this.#attempt += 1);
    const isLast = () => attempt === this.#attempt;
    this.#isOpening = true;
    try {
      const device = await this.#openDevice(deviceId);
      if (!isLast()) {
        device.close();
        return undefined;
      }
      this.drop();
      this.#current = device;
      return device;
    } catch (error) {
      if (isLast()) throw error;
      return undefined;
    } finally {
      if (isLast()) this.#isOpening = false;
    }
  }

  /** Closes the present microphone; a pending attempt continues. */
  drop(): void {
    this.#current?.close();
    this.#current = undefined;
  }

  /** Closes the present microphone, and any that a pending attempt opens. */
  close(): void {
    this.#attempt += 1;
    this.#isOpening = false;
    this.drop();
  }
}
