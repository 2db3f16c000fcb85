import type { TransportMemory } from './transport-chooser.ts';

const DAY_MS = 24 * 60 * 60_000;
const KEY = 'partyline-blocked-networks';
const MAX_NETWORKS = 20;

/** Times until which networks count as blocked, Unix time in ms, by gateway and network. */
type Blocked = Record<string, number>;

/**
 * Remembers in localStorage, for a day, the networks on which WebRTC did not reach a gateway.
 * @param gateway origin of the gateway
 */
export function transportMemory(gateway: string): TransportMemory {
  const nameOf = (network: string) => `${gateway} ${network}`;
  return {
    isBlocked: (network) => (read()[nameOf(network)] ?? 0) > Date.now(),
    setBlocked: (network, isBlocked) => {
      const now = Date.now();
      const blocked = Object.entries(read()).filter(
        ([name, until]) => name !== nameOf(network) && until > now,
      );
      if (isBlocked) blocked.push([nameOf(network), now + DAY_MS]);
      write(Object.fromEntries(blocked.slice(-MAX_NETWORKS)));
    },
  };
}

function read(): Blocked {
  try {
    return (JSON.parse(localStorage.getItem(KEY) ?? '{}') ?? {}) as Blocked;
  } catch {
    return {}; // the page may not use the storage, or it contains something else
  }
}

function write(blocked: Blocked): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(blocked));
  } catch {
    // The page may not use the storage: WebRTC is tried again each time.
  }
}
