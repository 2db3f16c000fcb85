/** Returns the devices that the browser lists: none over plain HTTP. Undefined if it cannot list them now. */
export async function listDevices(): Promise<readonly MediaDeviceInfo[] | undefined> {
  const listing = navigator.mediaDevices?.enumerateDevices() ?? Promise.resolve([]);
  return listing.catch(() => undefined);
}
