/**
 * A `redis-server` for the gateway (and the tests) to start as their own child.
 *
 * Debian's package of that name starts a system service and enables it at boot, which nobody asked
 * for. The program itself is in `redis-tools`: Redis is one binary that goes by the name it is called
 * with, Debian ships it there as `redis-check-rdb`, and its `redis-server` is a link to that. So
 * redis-tools is installed, and the link is made where the project's own programs are.
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

/** Sees to it that npm's scripts find a `redis-server`. */
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
      `Partyline needs redis-server, and this machine's redis-tools does not have it: run "sudo apt-get install -y redis-server".`,
    );
  }
  print('redis', 'redis-server is there, without a system service');
}
