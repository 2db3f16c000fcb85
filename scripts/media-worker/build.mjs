/** Builds the media worker on this machine, which takes a few minutes, once for each version of mediasoup. */
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { provide } from '../set-up/apt.mjs';
import { SetUpFailure } from '../set-up/failure.mjs';
import { find } from '../set-up/find.mjs';
import { CommandFailure, run } from '../set-up/run.mjs';
import { print, printProgress } from '../set-up/log.mjs';
import { builtKey, keep, workshop } from './cache.mjs';
import { sources } from './mediasoup.mjs';
import { compat, ninjaFile } from './recipe.mjs';
import { describeStartFault } from './starts.mjs';

const topic = 'media worker';

/** @type {import('../set-up/apt.mjs').Needs} */
const needs = {
  'g++': program('g++'),
  'ninja-build': program('ninja'),
  'flatbuffers-compiler': program('flatc'),
  'libflatbuffers-dev': header('flatbuffers/flatbuffers.h'),
  'libuv1-dev': header('uv.h'),
  'libssl-dev': header('openssl/ssl.h'),
  'libsrtp2-dev': header('srtp2/srtp.h'),
};

/** @param {string} name */
function program(name) {
  return () => find(name) !== undefined;
}

/** @param {string} path */
function header(path) {
  return () =>
    ['/usr/include', '/usr/local/include'].some((folder) => existsSync(join(folder, path)));
}

/** @returns {Promise<string>} path of the media worker in the cache */
export async function buildMediaWorker() {
  await provide(topic, needs);
  const key = builtKey(compiler());
  const folder = workshop(key);
  link('sources', sources, folder);
  link('compat', compat, folder);
  writeFileSync(join(folder, 'build.ninja'), ninjaFile());
  print(topic, 'building from the sources of the npm package, which takes a few minutes');
  await compile(folder);
  const binary = join(folder, 'mediasoup-worker');
  const trouble = describeStartFault(binary);
  if (trouble) {
    throw new SetUpFailure(
      `Partyline needs mediasoup's media worker, and the one that was built in ${folder} does not start (${trouble}): set MEDIASOUP_WORKER_BIN to one that starts.`,
    );
  }
  return keep(key, binary);
}

/**
 * @param {string} name
 * @param {string} target of the link; replaces that of another checkout, whose build was interrupted
 * @param {string} folder
 */
function link(name, target, folder) {
  const path = join(folder, name);
  rmSync(path, { force: true });
  symlinkSync(target, path);
}

function compiler() {
  const { stdout } = spawnSync('g++', ['-dumpfullversion'], { encoding: 'utf8' });
  return `g++-${stdout.trim()}`;
}

/**
 * Compiles the media worker. An interrupted build continues where it stopped. If set-up was killed, its compilers may still
 * run; they have inherited flock's lock, so that ninja waits for them. (--no-fork: flock becomes ninja, so that a signal
 * reaches ninja.)
 *
 * @param {string} folder
 */
async function compile(folder) {
  const progress = printProgress(topic, 'compiling');
  const jobs = String(availableParallelism());
  try {
    await run('flock', ['--no-fork', folder, 'ninja', '-j', jobs], {
      log: 'media-worker',
      cwd: folder,
      env: { NINJA_STATUS: '%f/%t ' },
      onLine: (line) => {
        const [, done, total] = /^(\d+)\/(\d+) /.exec(line) ?? [];
        if (done && total) progress(Number(done), Number(total));
      },
    });
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    error.show();
    throw new SetUpFailure(
      `Partyline needs mediasoup's media worker, and could not build it (${error.message}): set MEDIASOUP_WORKER_BIN to one that was built elsewhere.`,
    );
  }
}
