/** Installs shared libraries of a media worker that was built on this system, and may run on it without a compiler. */
import { spawnSync } from 'node:child_process';
import { provide } from '../set-up/apt.mjs';

/** @type {Record<string, string>} Debian's package for each library that the local build links */
const packages = {
  'libuv.so.1': 'libuv1',
  'libsrtp2.so.1': 'libsrtp2-1',
  'libssl.so.3': 'libssl3',
  'libcrypto.so.3': 'libssl3',
};

/**
 * Installs the libraries that a binary lacks. Does nothing if it lacks others as well: then it was built on another system.
 *
 * @param {string} binary
 */
export async function provideLibraries(binary) {
  const lacking = missingLibraries(binary);
  if (!lacking.every((library) => library in packages)) return;
  const needs = Object.fromEntries(
    lacking.map((library) => [
      /** @type {string} */ (packages[library]),
      () => !missingLibraries(binary).includes(library),
    ]),
  );
  await provide('media worker', needs);
}

/** @param {string} binary */
function missingLibraries(binary) {
  const { stdout } = spawnSync('ldd', [binary], { encoding: 'utf8' });
  return [...(stdout ?? '').matchAll(/(\S+) => not found/g)].map((match) => String(match[1]));
}
