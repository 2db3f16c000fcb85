import { useCallback, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { areHidden, deviceNames } from './device-names.ts';
import { listDevices } from './list-devices.ts';
import type { Devices, MicrophoneState } from './page-state.ts';

type Choose = (deviceId: string) => void;

/** The menus of microphones and speakers. Browsers name devices only once a microphone was allowed. */
export function DeviceMenus({
  microphone,
  devices,
  onMicrophone,
  onSpeaker,
  onGone,
}: {
  microphone: MicrophoneState;
  devices: Devices;
  onMicrophone: Choose;
  onSpeaker: Choose;
  onGone: (kind: keyof Devices) => void;
}) {
  const [listed, setListed] = useState<readonly MediaDeviceInfo[]>([]);
  const list = useCallback(async () => {
    const found = await listDevices();
    // A list that fails or hides its ids does not say that devices have gone.
    if (found && !areHidden(found)) setListed(found);
  }, []);
  const hasMicrophone = microphone !== 'off';
  useEffect(() => void list(), [list, hasMicrophone]);
  useEffect(() => {
    const listing = new AbortController();
    const { signal } = listing;
    navigator.mediaDevices?.addEventListener('devicechange', () => void list(), { signal });
    return () => listing.abort();
  }, [list]);

  return (
    <details id="devices" onToggle={() => void list()}>
      <summary>Microphone and speakers</summary>
      <Menu
        id="microphones"
        label="Microphone"
        devices={listed.filter(({ kind }) => kind === 'audioinput')}
        chosen={devices.microphone}
        onChoice={onMicrophone}
        onGone={() => onGone('microphone')}
      />
      <Menu
        id="speakers"
        label="Speakers"
        devices={listed.filter(({ kind }) => kind === 'audiooutput')}
        chosen={devices.speakers}
        onChoice={onSpeaker}
        onGone={() => onGone('speakers')}
        disabled={!('setSinkId' in HTMLMediaElement.prototype)}
      />
    </details>
  );
}

/** A menu of devices, which shows the one in use. @param onGone called when that one is unplugged */
function Menu({
  id,
  label,
  devices,
  chosen,
  onChoice,
  onGone,
  disabled = false,
}: {
  id: string;
  label: string;
  devices: readonly MediaDeviceInfo[];
  chosen: string;
  onChoice: Choose;
  onGone: () => void;
  disabled?: boolean;
}) {
  const named = devices.filter(({ deviceId }) => deviceId !== '' && deviceId !== 'default');
  const names = deviceNames(named.map(({ label: name }) => name));
  const isListed = named.some(({ deviceId }) => deviceId === chosen);
  const shown = isListed ? chosen : '';
  // The default one is used in its place, also when it is plugged in again.
  useLayoutEffect(() => {
    if (chosen !== shown) onGone();
  }, [chosen, shown]);
  return (
    <>
      <label for={id}>{label}</label>
      <select
        id={id}
        value={shown}
        disabled={disabled}
        onChange={({ currentTarget }) => {
          const { value } = currentTarget;
          // It is shown as chosen once it is in use: the browser may refuse it.
          currentTarget.value = shown;
          onChoice(value);
        }}
      >
        <option value="">Default</option>
        {named.map(({ deviceId }, i) => (
          <option key={deviceId} value={deviceId}>
            {names[i]}
          </option>
        ))}
      </select>
    </>
  );
}
