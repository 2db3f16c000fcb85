import type { Transport } from 'partyline-client';

/**
 * `?raw` in the page's address turns the browser's processing off, for tests that send a tone: noise suppression takes
 * a steady tone for noise and eats it.
 */
export const isRaw = () => new URLSearchParams(location.search).has('raw');

/** `?transports=websocket` (or `webrtc`, or both with a comma) in the page's address allows no others. */
export function transportsOfAddress(): { transports?: Transport[] } {
  const names = new URLSearchParams(location.search).get('transports')?.split(',') ?? [];
  const transports = names.filter((name) => name === 'webrtc' || name === 'websocket');
  return transports.length > 0 ? { transports } : {};
}
