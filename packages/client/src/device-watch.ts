import type { SoundSettings } from './room-audio.ts';

/** Time in which the caller may take another microphone before anything is said of the one that has gone, ms. */
const GRACE_MS = 1000;

type DeviceHandlers = {
  /** The speakers of the settings are others. */
  speakerChanged: () => Promise<void>;
  fault: (message: string) => void;
};

/** Notices that a device was unplugged: says so, and plays by the default speakers in place of those that have gone. */
export class DeviceWatch {
  readonly #settings: SoundSettings;
  readonly #handlers: DeviceHandlers;
  readonly #closing = new AbortController();
  #microphone = new AbortController();

  constructor(settings: SoundSettings, handlers: DeviceHandlers) {
    this.#settings = settings;
    this.#handlers = handlers;
    // A page over plain HTTP has none.
    navigator.mediaDevices?.addEventListener('devicechange', () => void this.#look(), {
      signal: this.#closing.signal,
    });
  }

  /** Takes the microphone of the settings, which is another one. A track that its owner stops has not gone. */
  microphoneChanged(): void {
    this.#microphone.abort();
    this.#microphone = new AbortController();
    const { signal } = this.#microphone;
    const say = () => {
      if (!signal.aborted)
        this.#handlers.fault('The microphone is gone, or may not be used: nobody hears you.');
    };
    const ended = () => void setTimeout(say, GRACE_MS);
    this.#settings.microphone?.addEventListener('ended', ended, { signal });
  }

  close(): void {
    this.#closing.abort();
    this.#microphone.abort();
  }

  async #look(): Promise<void> {
    const { speakerId } = this.#settings;
    if (speakerId === '') return; // the browser follows the default ones
    // A browser that does not tell (the page may not use devices now) says nothing of the speakers.
    const devices = await navigator.mediaDevices.enumerateDevices().catch(() => undefined);
    if (!devices) return;
    const isAvailable = devices.some(
      ({ kind, deviceId }) => kind === 'audiooutput' && deviceId === speakerId,
    );
    if (isAvailable || this.#closing.signal.aborted || speakerId !== this.#settings.speakerId)
      return;
    this.#settings.speakerId = '';
    this.#handlers.fault('The speakers are gone: sound is played by the default ones.');
    // That they cannot be had either is told by the browser.
    await this.#handlers.speakerChanged().catch(() => undefined);
  }
}
