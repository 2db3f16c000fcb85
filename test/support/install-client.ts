import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import { openLocalRegistry } from './local-registry.ts';

const run = promisify(execFile);
const CLIENT = join(import.meta.dirname, '../../packages/client');

/**
 * Packs the npm package and installs its tarball with `npm install` in a new, empty project.
 * @returns the folder of that project, which is removed after the test
 */
export async function installClient(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-package-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const packed = await run('npm', ['pack', '--silent', '--pack-destination', folder], {
    cwd: CLIENT,
  });
  const tarball = packed.stdout.trim().split('\n').at(-1)!;
  const registry = await openLocalRegistry(['mediasoup-client'], CLIENT);
  onTestFinished(() => registry.close());
  await writeFile(join(folder, 'package.json'), '{ "name": "newcomer", "private": true }\n');
  await run('npm', ['install', '--no-audit', '--no-fund', `./${tarball}`], {
    cwd: folder,
    // No settings of the person who runs the test, no proxy, and no cache but its own.
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      npm_config_registry: registry.url,
      npm_config_update_notifier: 'false',
    },
  });
  return folder;
}
