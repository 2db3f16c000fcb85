import { element } from './element.ts';

/** The menus of microphones and speakers. Browsers name devices only once a microphone was allowed. */
export class Devices {
  readonly #view = element('devices', HTMLDetailsElement);
  readonly #microphones = element('microphones', HTMLSelectElement);
  readonly #speakers = element('speakers', HTMLSelectElement);

  /** @param changed called with the id of the device that was chosen; empty: the browser's default one */
  onChoice(changed: { microphone: (id: string) => void; speaker: (id: string) => void }): void {
    this.#microphones.addEventListener('change', () => changed.microphone(this.#microphones.value));
    this.#speakers.addEventListener('change', () => changed.speaker(this.#speakers.value));
    navigator.mediaDevices?.addEventListener('devicechange', () => void this.show());
    this.#view.addEventListener('toggle', () => void this.show());
  }

  /** Lists what there is now; what was chosen stays so, if it is still there. */
  async show(): Promise<void> {
    if (!navigator.mediaDevices) return; // a page over plain HTTP
    const devices = await navigator.mediaDevices.enumerateDevices();
    fill(this.#microphones, devices, 'audioinput');
    fill(this.#speakers, devices, 'audiooutput');
    this.#speakers.disabled = !('setSinkId' in HTMLMediaElement.prototype);
  }
}

function fill(
  select: HTMLSelectElement,
  devices: MediaDeviceInfo[],
  kind: MediaDeviceInfo['kind'],
): void {
  const chosen = select.value;
  const named = devices.filter(
    ({ kind: its, deviceId }) => its === kind && deviceId !== '' && deviceId !== 'default',
  );
  const options = named.map(({ deviceId, label }, i) => new Option(label || `${i + 1}`, deviceId));
  select.replaceChildren(new Option('Default', ''), ...options);
  select.value = chosen;
  if (select.selectedIndex < 0) select.value = '';
}
