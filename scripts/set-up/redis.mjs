/**
 * Provides a `redis-server` that the gateway and the tests start as their child.
 *
 * Debian's package `redis-server` would also start a system service and enable it at boot. The program itself is in
 * `redis-tools`: Redis is one binary that acts by the name under which it is called. Debian installs it as
 * `redis-check-rdb`, and its `redis-server` is a link to that. So redis-tools is installed, and the link is made in the
 * project's `node_modules/.bin`.
 */
import { spawnSync } from 'node:child_process';
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { provide } from './apt.mjs';
import { SetUpFailure } from './failure.mjs';
import { find } from './find.mjs';
import { bin } from './project.mjs';
import { print } from './log.mjs';

const words = { what: 'redis-server', byHand: 'redis-server' };

/** Lowest version of Redis that the gateway uses (`src/store/redis-version.ts`). */
const lowestMajor = 7;

/** Makes a `redis-server` available to npm's scripts. */
export async function provideRedis() {
  if (!find('redis-server')) {
    await provide('redis', { 'redis-tools': () => find('redis-check-rdb') !== undefined }, words);
    linkAsServer(/** @type {string} */ (find('redis-check-rdb')));
  }
  const server = /** @type {string} */ (find('redis-server'));
  const version = outdatedVersion(versionOf(server));
  if (version === undefined) return;
  throw new SetUpFailure(
    `Partyline needs Redis ${lowestMajor}.0 or newer, and ${server} is ${version}: install a newer one (https://packages.redis.io has packages for Debian and Ubuntu), or name another Redis in REDIS_URL.`,
  );
}

/**
 * Returns the version that a server prints, if it is too old. The numbers of Valkey are others, and all of them will do.
 *
 * @param {string} printed
 * @returns {string | undefined}
 */
function outdatedVersion(printed) {
  const [, version, major] = /^Redis server v=((\d+)\S*)/.exec(printed) ?? [];
  return Number(major) < lowestMajor ? version : undefined;
}

/** @param {string} server */
const versionOf = (server) => spawnSync(server, ['--version'], { encoding: 'utf8' }).stdout ?? '';

/** @param {string} binary */
function linkAsServer(binary) {
  const link = join(bin, 'redis-server');
  rmSync(link, { force: true });
  symlinkSync(binary, link);
  if (!versionOf(link).startsWith('Redis server')) {
    rmSync(link, { force: true });
    throw new SetUpFailure(
      `Partyline needs redis-server, and this machine's redis-tools does not contain it: run "sudo apt-get install -y redis-server".`,
    );
  }
  print('redis', 'redis-server installed, without a system service');
}
