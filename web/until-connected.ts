import type { PartylineClient } from 'partyline-client';

/** Resolves as soon as the client is not reconnecting (it is connected, or has given up), or when `signal` aborts. */
export async function untilConnected(client: PartylineClient, signal: AbortSignal): Promise<void> {
  while (client.state.name === 'reconnecting' && !signal.aborted) {
    await changeOf(client, signal);
  }
}

/** Resolves at the next change of the client's state, or when `signal` aborts. */
function changeOf(client: PartylineClient, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      stop();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const stop = client.on('change', end);
    signal.addEventListener('abort', end);
  });
}
