/**
 * Provides the media worker, mediasoup's C++ program, as build/mediasoup-worker, from where the gateway starts it. It is
 * taken from the first of: MEDIASOUP_WORKER_BIN, what is there already, the cache, mediasoup's prebuilt archive, a build on this machine.
 */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { buildMediaWorker } from '../media-worker/build.mjs';
import { cached, cacheFolder, fits } from '../media-worker/cache.mjs';
import { provideLibraries } from '../media-worker/libraries.mjs';
import { downloadPrebuilt } from '../media-worker/prebuilt.mjs';
import { describeStartFault } from '../media-worker/starts.mjs';
import { SetUpFailure } from './failure.mjs';
import { exclusively } from './lock.mjs';
import { build } from './project.mjs';

const destination = join(build, 'mediasoup-worker');
/** File with the name that the media worker in build/ has in the cache. There is none if MEDIASOUP_WORKER_BIN named another. */
const nameFile = join(build, 'mediasoup-worker.name');

/** Copies a media worker that starts on this machine to where the gateway looks for it. */
export async function provideMediaWorker() {
  const binary = named();
  if (binary !== undefined) return place(binary);
  // The user may have another cache than the one who set this up, and no right to write here.
  if (isInPlace()) return;
  const found = (await fromCache()) ?? (await exclusively(cacheFolder, obtain));
  place(found, basename(dirname(found)));
}

/** Returns true if the media worker in build/ fits, and starts. */
function isInPlace() {
  if (!existsSync(destination) || !existsSync(nameFile)) return false;
  return fits(readFileSync(nameFile, 'utf8')) && !describeStartFault(destination);
}

/** @returns {string | undefined} path of the media worker that MEDIASOUP_WORKER_BIN names */
function named() {
  const path = process.env.MEDIASOUP_WORKER_BIN;
  if (!path) return undefined;
  const trouble = describeStartFault(resolve(path));
  if (trouble) {
    throw new SetUpFailure(
      `MEDIASOUP_WORKER_BIN names ${path}, which does not start as a media worker (${trouble}): name another file, or unset it.`,
    );
  }
  return resolve(path);
}

/** @returns {Promise<string | undefined>} path of the first media worker in the cache that starts */
async function fromCache() {
  const candidates = cached();
  const starting = candidates.find((binary) => !describeStartFault(binary));
  if (starting) return starting;
  // One that was built earlier may only lack libraries that have been removed since.
  for (const binary of candidates) {
    await provideLibraries(binary);
    if (!describeStartFault(binary)) return binary;
  }
  return undefined;
}

/** @returns {Promise<string>} */
async function obtain() {
  // Another set-up may have filled the cache while this one waited for its turn.
  return (await fromCache()) ?? (await downloadPrebuilt()) ?? (await buildMediaWorker());
}

/**
 * Copies a media worker into build/, which is thereby complete, e.g. for a container image. The copy is renamed into
 * place, so that no incomplete file can be started, and a gateway that runs the old one is not disturbed.
 *
 * @param {string} binary
 * @param {string} [name] its name in the cache
 */
function place(binary, name) {
  if (!existsSync(destination) || !readFileSync(destination).equals(readFileSync(binary))) {
    mkdirSync(build, { recursive: true });
    rmSync(nameFile, { force: true });
    const copy = `${destination}.${process.pid}`;
    copyFileSync(binary, copy);
    renameSync(copy, destination);
  }
  if (name !== undefined) writeFileSync(nameFile, name);
}
