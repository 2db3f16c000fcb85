/**
 * Servers for the tests of deployments, in the versions that the shipped files name: those of Debian trixie. They are unpacked
 * into a folder of the project, and run with trixie's libraries.
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

/** Packages of Debian trixie; of each, the names under which tests call its programs, and their paths in the package. */
const SERVERS = {
  prometheus: { prometheus: 'bin/prometheus', promtool: 'bin/promtool' },
  'redis-tools': { 'redis-cli': 'bin/redis-cli', 'redis-server': 'bin/redis-check-rdb' },
  'valkey-tools': { 'valkey-server': 'bin/valkey-check-rdb' },
};

/** Folder of the unpacked packages; its folder `scripts` has a script for each program. */
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

/** @param {string} work path of an empty folder */
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
 * Returns a script that starts a program with the loader and the libraries of trixie, for whose libc it was built.
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
