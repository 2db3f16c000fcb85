import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';

/** Longest tarball of an installed package, bytes. */
const MAX_TARBALL_BYTES = 64 << 20;

type Manifest = {
  name: string;
  version: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
};

const readManifest = (folder: string) =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;

/**
 * Returns the folder of a dependency, found as Node finds it: in the nearest `node_modules` above the dependent package. Undefined if it is not
 * installed.
 */
function folderOf(dependency: string, dependent: string): string | undefined {
  const folder = join(dependent, 'node_modules', dependency);
  if (existsSync(join(folder, 'package.json'))) return folder;
  const above = dirname(dependent);
  return above === dependent ? undefined : folderOf(dependency, above);
}

/** Returns the folders of installed packages and of all that they depend on. @param from a folder of the project */
function closureOf(names: string[], from: string): Set<string> {
  const folders = new Set<string>();
  const add = (dependencies: string[], dependent: string) => {
    for (const dependency of dependencies) {
      const folder = folderOf(dependency, dependent);
      // An optional one is for another machine than this; npm does without it.
      if (folder === undefined || folders.has(folder)) continue;
      folders.add(folder);
      const { dependencies: needed, optionalDependencies: optional } = readManifest(folder);
      add(Object.keys({ ...needed, ...optional }), folder);
    }
  };
  add(names, from);
  return folders;
}

/**
 * Opens a registry of npm packages on this machine. It has what this project has installed of some packages and of their dependencies, so
 * that a test can run `npm install` as it is, without a network.
 * @param names of packages that `from` depends on
 */
export async function openLocalRegistry(names: string[], from: string) {
  const folders = [...closureOf(names, from)];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://localhost').pathname);
    const [, index] = /^\/-\/(\d+)\.tgz$/.exec(path) ?? [];
    const body = index === undefined ? describe(path.slice(1)) : pack(folders[Number(index)]!);
    if (!body) return response.writeHead(404).end('{}');
    return response.end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;

  /** Returns the document of a package, with each version that is installed; undefined if none is. */
  const describe = (name: string): string | undefined => {
    const found = folders
      .map((folder, index) => ({ manifest: readManifest(folder), tarball: `${url}-/${index}.tgz` }))
      .filter(({ manifest }) => manifest.name === name);
    const [first] = found;
    if (!first) return undefined;
    const versions = found.map(
      ({ manifest, tarball }) => [manifest.version, { ...manifest, dist: { tarball } }] as const,
    );
    const latest = first.manifest.version;
    const document = { name, 'dist-tags': { latest }, versions: Object.fromEntries(versions) };
    return JSON.stringify(document);
  };

  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url, close };
}

/** Returns an installed package as the tarball of a registry: its files in the folder `package`. */
function pack(folder: string): Buffer {
  const inPackage = ['--transform', 's,^\\.,package,', '--exclude', './node_modules'];
  return execFileSync('tar', ['-cz', '-C', folder, ...inPackage, '.'], {
    maxBuffer: MAX_TARBALL_BYTES,
  });
}
