import { useCallback, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import type { MicrophoneState } from './page-state.ts';

type Choose = (deviceId: string) => void;

/** The menus of microphones and speakers. Browsers name devices only once a microphone was allowed. */
export function DeviceMenus({
  microphone,
  onMicrophone,
  onSpeaker,
}: {
  microphone: MicrophoneState;
  onMicrophone: Choose;
  onSpeaker: Choose;
}) {
  const [devices, setDevices] = useState<readonly MediaDeviceInfo[]>([]);
  const list = useCallback(async () => {
    setDevices((await navigator.mediaDevices?.enumerateDevices()) ?? []); // none over plain HTTP
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
        devices={devices.filter(({ kind }) => kind === 'audioinput')}
        onChoice={onMicrophone}
      />
      <Menu
        id="speakers"
        label="Speakers"
        devices={devices.filter(({ kind }) => kind === 'audiooutput')}
        onChoice={onSpeaker}
        disabled={!('setSinkId' in HTMLMediaElement.prototype)}
      />
    </details>
  );
}

/** A menu of devices; what was chosen stays so until it is unplugged. */
function Menu({
  id,
  label,
  devices,
  onChoice,
  disabled = false,
}: {
  id: string;
  label: string;
  devices: readonly MediaDeviceInfo[];
  onChoice: Choose;
  disabled?: boolean;
}) {
  const [chosen, setChosen] = useState('');
  const named = devices.filter(({ deviceId }) => deviceId !== '' && deviceId !== 'default');
  const isListed = named.some(({ deviceId }) => deviceId === chosen);
  // The default one is used in its place, also when it is plugged in again.
  useLayoutEffect(() => {
    if (!isListed) setChosen('');
  }, [isListed]);
  return (
    <>
      <label for={id}>{label}</label>
      <select
        id={id}
        value={isListed ? chosen : ''}
        disabled={disabled}
        onChange={({ currentTarget }) => {
          setChosen(currentTarget.value);
          onChoice(currentTarget.value);
        }}
      >
        <option value="">Default</option>
        {named.map(({ deviceId, label: name }, i) => (
          <option key={deviceId} value={deviceId}>
            {name || String(i + 1)}
          </option>
        ))}
      </select>
    </>
  );
}
