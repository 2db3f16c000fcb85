/** The installed mediasoup package: its version, and where its C++ sources are. */
import { join } from 'node:path';
import { nodeModules, readJson } from '../set-up/project.mjs';

const folder = join(nodeModules, 'mediasoup');

/** The C++ sources of the media worker, as the package has them. */
export const sources = join(folder, 'worker');

/** @returns {{ version: string, repository: string }} the repository's address in a browser */
export function mediasoup() {
  const { version, repository } = readJson(join(folder, 'package.json'));
  return { version, repository: repository.url.replace(/^git\+/, '').replace(/\.git$/, '') };
}
