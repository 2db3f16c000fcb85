/** Time for which others speak and nothing comes, after which the way down is held to be broken, ms. */
const SILENCE_MS = 1500;

/** Finds out whether sound that should come does: others are said to speak, and no packets come. */
export class FlowWatch {
  #packets = -1;
  #sinceMs: number | undefined;

  /**
   * Notes how things are; called a few times a second.
   * @param packetsReceived since the beginning
   */
  note(areOthersSpeaking: boolean, packetsReceived: number, nowMs: number): void {
    const isMoving = packetsReceived !== this.#packets;
    this.#packets = packetsReceived;
    if (!areOthersSpeaking || isMoving) this.#sinceMs = undefined;
    else this.#sinceMs ??= nowMs;
  }

  isSilenced(nowMs: number): boolean {
    return this.#sinceMs !== undefined && nowMs - this.#sinceMs >= SILENCE_MS;
  }
}
