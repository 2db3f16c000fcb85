/** The media worker that mediasoup's authors build and publish with each release. */
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { print } from '../set-up/log.mjs';
import { keep, prebuiltKey, workshop } from './cache.mjs';
import { mediasoup } from './mediasoup.mjs';
import { describeStartFault } from './starts.mjs';

const topic = 'media worker';
/** Short, because the media worker can also be built if the release page cannot be reached. */
const answerTimeoutMs = 5_000;
const downloadTimeoutMs = 120_000;

/** @returns {Promise<string | undefined>} path of the media worker in the cache; undefined if there is none for this machine */
export async function downloadPrebuilt() {
  const folder = workshop(prebuiltKey());
  try {
    unpack(await download(archiveAddress()), folder);
    const binary = join(folder, 'mediasoup-worker');
    const trouble = describeStartFault(binary);
    if (trouble) throw new Error(`it does not start on this machine: ${trouble}`);
    print(topic, 'downloaded the prebuilt binary of mediasoup');
    return keep(prebuiltKey(), binary);
  } catch (error) {
    print(topic, `prebuilt binary not available (${reasonOf(error)})`);
    rmSync(folder, { recursive: true, force: true });
    return undefined;
  }
}

/** Returns the URL of the archive, as mediasoup's npm-scripts.mjs forms it. */
function archiveAddress() {
  const { version, repository } = mediasoup();
  const kernel = release().split('.')[0];
  const archive = `mediasoup-worker-${version}-${process.platform}-${process.arch}-kernel${kernel}.tgz`;
  return `${repository}/releases/download/${version}/${archive}`;
}

/** @param {string} address */
async function download(address) {
  const abort = new AbortController();
  let timer = setTimeout(() => abort.abort(new Error('no answer in time')), answerTimeoutMs);
  try {
    const response = await fetch(address, { signal: abort.signal });
    if (!response.ok) throw new Error(`${new URL(address).host} answered ${response.status}`);
    clearTimeout(timer);
    timer = setTimeout(() => abort.abort(new Error('download too slow')), downloadTimeoutMs);
    return Buffer.from(await response.arrayBuffer());
  } finally {
    clearTimeout(timer);
  }
}

/**
 * @param {Buffer} archive
 * @param {string} folder
 */
function unpack(archive, folder) {
  const { status, stderr } = spawnSync('tar', ['-xz', '-C', folder], { input: archive });
  if (status !== 0) throw new Error(`its archive does not unpack: ${String(stderr).trim()}`);
}

/** @param {unknown} error of `fetch`, whose `cause` has the reason */
function reasonOf(error) {
  const { message, cause } = /** @type {Error & { cause?: Error }} */ (error);
  return cause?.message ?? message;
}
