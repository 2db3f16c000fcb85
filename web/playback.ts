/** Plays remote tracks, one `<audio>` element each. */
export class Playback {
  readonly #elements = new Map<string, HTMLAudioElement>();
  readonly #blocked: () => void;

  /** @param blocked called when the browser wants a click first; `resume()` belongs into that click */
  constructor(blocked: () => void) {
    this.#blocked = blocked;
  }

  /** Starts to play a track. An element need not be in the page to be heard. */
  add(id: string, track: MediaStreamTrack): void {
    const element = new Audio();
    element.srcObject = new MediaStream([track]);
    this.#elements.set(id, element);
    this.#play(element);
  }

  remove(id: string): void {
    const element = this.#elements.get(id);
    if (!element) return;
    this.#elements.delete(id);
    element.pause();
    element.srcObject = null;
  }

  /** Tries again what the browser had blocked. */
  resume(): void {
    for (const element of this.#elements.values()) if (element.paused) this.#play(element);
  }

  close(): void {
    for (const id of this.#elements.keys()) this.remove(id);
  }

  #play(element: HTMLAudioElement): void {
    element.play().catch((error: unknown) => {
      // Any other name means that the element was removed before it started.
      if (error instanceof DOMException && error.name === 'NotAllowedError') this.#blocked();
    });
  }
}
