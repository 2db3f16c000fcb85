import type { types } from 'mediasoup-client';
import type { SendRequest } from '../connection.ts';
import { RequestError } from '../errors.ts';
import { delay } from './delay.ts';

const RESTARTS = 3;
/** Time that a restart may take before the next is tried, ms. */
const PATIENCE_MS = 5_000;
/**
 * Time for the first path after which the user is told that there is none yet, ms. On a good network it takes
 * a tenth.
 */
const FIRST_NOTICE_MS = 4000;
/**
 * Time for the first path after which another attempt is made, ms: a browser without any network never
 * reports that as a failure.
 */
const FIRST_PATIENCE_MS = 15_000;

type PathHandlers = {
  /**
   * Called with false when there is a path, with true when there is none; not for the first one, if it comes
   * in time.
   */
  changed: (isBroken: boolean) => void;
  /** Called when restarts did not help, or could not be requested. */
  lost: (error: RequestError) => void;
};

/**
 * Restores a transport's path when it breaks (a changed network, a NAT that forgot the mapping) or is not
 * found: requests new ICE credentials from the gateway and restarts the search of both sides, until the
 * transport is connected, `signal` aborts, or it is `lost`.
 * @returns a function to be called when the search for the first path begins, which is once the gateway has answered the request to connect
 */
export function keepIceAlive(
  transport: types.Transport,
  request: SendRequest,
  handlers: PathHandlers,
  signal: AbortSignal,
): () => void {
  let mending = false;
  const startMending = () => {
    if (signal.aborted) return;
    handlers.changed(true);
    if (mending) return;
    mending = true;
    mend(transport, request, signal).then(
      () => (mending = false),
      (thrown: unknown) => {
        mending = false;
        if (signal.aborted) return;
        handlers.lost(thrown instanceof RequestError ? thrown : noPath(thrown));
      },
    );
  };
  transport.on('connectionstatechange', (state) => {
    if (state === 'disconnected' || state === 'failed') startMending();
    else if (state === 'connected') handlers.changed(false);
  });
  return () => {
    if (signal.aborted) return;
    void delay(FIRST_NOTICE_MS, signal).then(() => {
      if (!signal.aborted && transport.connectionState !== 'connected') handlers.changed(true);
    });
    void delay(FIRST_PATIENCE_MS, signal).then(() => {
      if (transport.connectionState !== 'connected') startMending();
    });
  };
}

async function mend(
  transport: types.Transport,
  request: SendRequest,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 0; attempt < RESTARTS; attempt++) {
    const reply = await request({ type: 'restart_ice', transport_id: transport.id });
    if (signal.aborted) return;
    // mediasoup-client refuses this in Firefox, which goes on with the servers that it has: once
    // their credentials have expired, it finds no path through them.
    if (reply.ice_servers) {
      await transport.updateIceServers({ iceServers: reply.ice_servers }).catch(() => undefined);
      if (signal.aborted) return;
    }
    await transport.restartIce({ iceParameters: reply.ice_parameters });
    await delay(PATIENCE_MS, signal);
    if (signal.aborted || transport.connectionState === 'connected') return;
  }
  throw noPath();
}

const noPath = (cause?: unknown) => {
  const why = cause instanceof Error ? cause.message : 'a firewall may be in the way';
  return new RequestError('no_path', `Audio does not reach the gateway: ${why}.`, true);
};
