import type { PartylineClient } from 'partyline-client';

/** Resolves as soon as the client is not reconnecting (it is connected, or has given up), or when `signal` aborts. */
export async function untilConnected(client: PartylineClient, signal: AbortSignal): Promise<void> {
  while (client.state.name === 'reconnecting' && !signal.aborted) {
    await new Promise<void>((resolve) => {
      client.on('change', () => resolve(), { signal });
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}
