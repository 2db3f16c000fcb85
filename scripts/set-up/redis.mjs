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

/** Makes a `redis-server` available to npm's scripts. */
export async function provideRedis() {
  if (find('redis-server')) return;
  await provide('redis', { 'redis-tools': () => find('redis-check-rdb') !== undefined }, words);
  linkAsServer(/** @type {string} */ (find('redis-check-rdb')));
}

/** @param {string} binary */
function linkAsServer(binary) {
  const link = join(bin, 'redis-server');
  rmSync(link, { force: true });
  symlinkSync(binary, link);
  const { stdout } = spawnSync(link, ['--version'], { encoding: 'utf8' });
  if (!stdout?.startsWith('Redis server')) {
    rmSync(link, { force: true });
    throw new SetUpFailure(
      `Partyline needs redis-server, and this machine's redis-tools does not contain it: run "sudo apt-get install -y redis-server".`,
    );
  }
  print('redis', 'redis-server installed, without a system service');
}
