import type { SoundSettings } from './room-audio.ts';

/** Time in which the page may choose another microphone before the loss of the last one is reported, ms. */
const GRACE_MS = 1000;

type DeviceHandlers = {
  /** Called when the speakers of the settings have changed. */
  speakerChanged: () => Promise<void>;
  fault: (message: string) => void;
};

/** Watches for unplugged devices: reports them, and changes to the default speakers if the selected ones are gone. */
export class DeviceWatch {
  readonly #settings: SoundSettings;
  readonly #handlers: DeviceHandlers;
  readonly #closing = new AbortController();
  #microphone = new AbortController();

  constructor(settings: SoundSettings, handlers: DeviceHandlers) {
    this.#settings = settings;
    this.#handlers = handlers;
    // A page over plain HTTP has no `mediaDevices`.
    navigator.mediaDevices?.addEventListener('devicechange', () => void this.#look(), {
      signal: this.#closing.signal,
    });
  }

  /**
   * Watches the microphone of the settings; to be called when it has changed. A track that the page stops meanwhile does not count as
   * unplugged.
   */
  microphoneChanged(): void {
    this.#microphone.abort();
    this.#microphone = new AbortController();
    const { signal } = this.#microphone;
    const report = () => {
      if (!signal.aborted)
        this.#handlers.fault('The microphone is gone, or may not be used: nobody hears you.');
    };
    const ended = () => void setTimeout(report, GRACE_MS);
    const { microphone } = this.#settings;
    microphone?.addEventListener('ended', ended, { signal });
    if (microphone?.readyState === 'ended') ended(); // before it was given, which has no event
  }

  close(): void {
    this.#closing.abort();
    this.#microphone.abort();
  }

  async #look(): Promise<void> {
    const { speakerId } = this.#settings;
    if (speakerId === '') return; // the browser follows the default ones
    // A browser that lists no devices, or hides their ids because the page may not use them now,
    // does not show that speakers are gone. It hides the ids of all audio devices, or of none.
    const devices = await navigator.mediaDevices.enumerateDevices().catch(() => undefined);
    const firstOfAudio = devices?.find(({ kind }) => kind !== 'videoinput');
    if (!devices || firstOfAudio?.deviceId === '') return;
    const isAvailable = devices.some(
      ({ kind, deviceId }) => kind === 'audiooutput' && deviceId === speakerId,
    );
    if (isAvailable || this.#closing.signal.aborted || speakerId !== this.#settings.speakerId)
      return;
    this.#settings.speakerId = '';
    this.#handlers.fault('The speakers are gone: sound is played by the default ones.');
    // The user knows that the speakers are gone; nothing else can be done.
    await this.#handlers.speakerChanged().catch(() => undefined);
  }
}
