import { afterEach, expect, test, vi } from 'vitest';
import { listDevices } from '../../../web/list-devices.ts';

/** Devices, as a browser lists them or not. */

afterEach(() => void vi.unstubAllGlobals());

/** Has the browser list devices by this function. */
const stub = (mediaDevices?: { enumerateDevices: () => Promise<unknown> }) =>
  vi.stubGlobal('navigator', { mediaDevices });

test('a page over plain HTTP has no devices', async () => {
  stub();
  expect(await listDevices()).toEqual([]);
});

test('devices that the browser cannot list are unknown, and no error', async () => {
  const devices = [{ kind: 'audioinput', deviceId: 'a' }];
  stub({ enumerateDevices: () => Promise.resolve(devices) });
  expect(await listDevices()).toEqual(devices);
  stub({ enumerateDevices: () => Promise.reject(new DOMException('', 'InvalidStateError')) });
  expect(await listDevices()).toBeUndefined();
});
