/**
 * Servers of the versions that the shipped files name, for the tests of deployments: those of Debian trixie, unpacked beside this machine's
 * own, and run with the libraries of their own.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exclusively } from './lock.mjs';
import { print } from './log.mjs';
import { build } from './project.mjs';
import { run } from './run.mjs';

/** The packages, with the programs of each by the names that they are to have. */
const SERVERS = {
  prometheus: { prometheus: 'bin/prometheus', promtool: 'bin/promtool' },
  'redis-tools': { 'redis-cli': 'bin/redis-cli', 'redis-server': 'bin/redis-check-rdb' },
  'valkey-tools': { 'valkey-server': 'bin/valkey-check-rdb' },
};

/** Unpacked packages, and in `scripts` one for each program. */
const folder = join(build, 'deploy/servers');

export async function provideTrixieServers() {
  if (existsSync(folder)) return;
  await exclusively('trixie-servers', async () => {
    if (existsSync(folder)) return;
    print('servers', `unpacking ${Object.keys(SERVERS).join(', ')} of Debian trixie`);
    const work = mkdtempSync(join(tmpdir(), 'partyline-servers-'));
    try {
      await unpack(work);
    } finally {
      rmSync(work, { recursive: true });
    }
  });
}

/** @param {string} work a folder that is empty */
async function unpack(work) {
  const [root, part] = [join(work, 'trixie'), `${folder}.part`];
  const include = `--include=${Object.keys(SERVERS).join(',')}`;
  const options = ['--download-only', '--variant=minbase', include, 'trixie', root];
  await run('debootstrap', options, { log: 'servers' });
  rmSync(part, { recursive: true, force: true });
  mkdirSync(join(part, 'scripts'), { recursive: true });
  const archives = join(root, 'var/cache/apt/archives');
  for (const name of readdirSync(archives).filter((file) => file.endsWith('.deb'))) {
    await run('dpkg-deb', ['--extract', join(archives, name), part], { log: 'servers' });
  }
  for (const [name, path] of Object.values(SERVERS).flatMap((programs) =>
    Object.entries(programs),
  )) {
    const file = join(part, 'scripts', name);
    writeFileSync(file, scriptFor(part, name, path));
    chmodSync(file, 0o755);
  }
  renameSync(part, folder);
}

/**
 * A program that was built for another libc is run by that one's loader.
 *
 * @param {string} part
 * @param {string} name
 * @param {string} path
 */
function scriptFor(part, name, path) {
  const libraries = join(
    'usr/lib',
    readdirSync(join(part, 'usr/lib')).find((each) => each.endsWith('-linux-gnu')) ?? '',
  );
  const loader = readdirSync(join(part, libraries)).find((each) => /^ld-linux.*\.so/.test(each));
  const words = [
    join(folder, libraries, loader ?? ''),
    '--argv0',
    name,
    '--library-path',
    join(folder, libraries),
    join(folder, 'usr', path),
  ];
  return `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(' ')} "$@"\n`;
}
