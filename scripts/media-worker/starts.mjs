/** Tells whether a file is a media worker that runs on this machine. */
import { spawnSync } from 'node:child_process';

/** Exit code of mediasoup-worker when nothing tells it mediasoup's version (its src/main.cpp). */
const notCalledByMediasoup = 41;
const timeoutMs = 10_000;

/**
 * Starts it the way that it refuses, which is enough to load its libraries and its code.
 *
 * @param {string} binary
 * @returns {string | undefined} why it does not start; undefined when it does
 */
export function whyNotStarting(binary) {
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
