import type { PartylineClient } from 'partyline-client';

/** Resolves when a client that was connected is not reconnecting any more, or when `signal` aborts. */
export async function untilConnected(client: PartylineClient, signal: AbortSignal): Promise<void> {
  while (client.state.name === 'reconnecting' && !signal.aborted) {
    await new Promise<void>((resolve) => {
      client.on('change', () => resolve(), { signal });
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}
