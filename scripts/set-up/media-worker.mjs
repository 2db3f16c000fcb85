/**
 * The media worker: mediasoup's C++ program, which the gateway starts and finds at build/mediasoup-worker.
 * Its sources, in this order: MEDIASOUP_WORKER_BIN, the cache, upstream's prebuilt archive, a build on this
 * machine.
 */
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { buildMediaWorker } from '../media-worker/build.mjs';
import { cached, cacheFolder } from '../media-worker/cache.mjs';
import { provideLibraries } from '../media-worker/libraries.mjs';
import { downloadPrebuilt } from '../media-worker/prebuilt.mjs';
import { whyNotStarting } from '../media-worker/starts.mjs';
import { SetUpFailure } from './failure.mjs';
import { exclusively } from './lock.mjs';
import { build } from './project.mjs';

/** Puts a media worker that starts on this machine where the gateway looks for it. */
export async function provideMediaWorker() {
  place(named() ?? (await fromCache()) ?? (await exclusively(cacheFolder, obtain)));
}

/** @returns {string | undefined} the one that the environment names */
function named() {
  const path = process.env.MEDIASOUP_WORKER_BIN;
  if (!path) return undefined;
  const trouble = whyNotStarting(resolve(path));
  if (trouble) {
    throw new SetUpFailure(
      `MEDIASOUP_WORKER_BIN names ${path}, and that does not start as a media worker (${trouble}): name another, or unset it.`,
    );
  }
  return resolve(path);
}

/** @returns {Promise<string | undefined>} the first one in the cache that starts */
async function fromCache() {
  const candidates = cached();
  const starting = candidates.find((binary) => !whyNotStarting(binary));
  if (starting) return starting;
  // Built at another time: perhaps nothing but the libraries it was linked with are gone.
  for (const binary of candidates) {
    await provideLibraries(binary);
    if (!whyNotStarting(binary)) return binary;
  }
  return undefined;
}

/** @returns {Promise<string>} */
async function obtain() {
  // Another set-up may have filled the cache while this one waited for its turn.
  return (await fromCache()) ?? (await downloadPrebuilt()) ?? (await buildMediaWorker());
}

/**
 * A copy, so that build/ is whole by itself, e.g. for a container image; renamed into place, so that
 * no half one is ever there and a gateway that runs the old one is not disturbed.
 *
 * @param {string} binary
 */
function place(binary) {
  const destination = join(build, 'mediasoup-worker');
  if (existsSync(destination) && readFileSync(destination).equals(readFileSync(binary))) return;
  mkdirSync(build, { recursive: true });
  const copy = `${destination}.${process.pid}`;
  copyFileSync(binary, copy);
  renameSync(copy, destination);
}
