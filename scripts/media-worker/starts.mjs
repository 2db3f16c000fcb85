/** Tells whether a file is a media worker that runs on this machine. */
import { spawnSync } from 'node:child_process';

/** Exit code of mediasoup-worker when nothing tells it mediasoup's version (its src/main.cpp). */
const notCalledByMediasoup = 41;
const timeoutMs = 10_000;

/**
 * Starts a media worker without the version that it requires: it loads its libraries and its code, and then refuses.
 *
 * @param {string} binary
 * @returns {string | undefined} reason for which it does not start; undefined if it does
 */
export function describeStartFault(binary) {
  const env = { ...process.env };
  delete env.MEDIASOUP_VERSION;
  const { status, signal, error, stderr } = spawnSync(binary, [], {
    env,
    encoding: 'utf8',
    timeout: timeoutMs,
  });
  if (status === notCalledByMediasoup) return undefined;
  const said = stderr?.trim().split('\n')[0];
  return error?.message ?? (said || `it ended with ${status ?? signal}`);
}
