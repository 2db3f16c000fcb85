import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const PROJECT = join(import.meta.dirname, '../..');
/** Debian's packages are unpacked once. */
const DEBIAN = join(PROJECT, 'build/deploy/trixie.tar');
/** Images of the last sources that were built, each in a file: a build takes minutes, and several test files need it. */
const BUILT = join(PROJECT, 'build/deploy/images');
const MEDIA_WORKERS = join(homedir(), '.cache/partyline/media-worker');

/** The user of the base image, and what makes apt-get leave nothing behind in it. */
const PREPARE = `
groupadd --gid 1000 node
useradd --uid 1000 --gid node --shell /bin/bash --create-home node
rm -rf /var/cache/apt/* /var/lib/apt/lists/*
`;

/** A media worker takes minutes to build, and is kept where the Dockerfile keeps it. */
const SEED = `
COPY media-worker /seed
RUN --mount=type=cache,target=/root/.cache mkdir -p /root/.cache/partyline && cp -rT /seed /root/.cache/partyline/media-worker
`;

export type ImageConfig = {
  User: string;
  Cmd: string[];
  Entrypoint?: string[];
  Env: string[];
  WorkingDir: string;
  Healthcheck: { Test: string[] };
};

/** Images of this project, built by buildah in a storage of its own, which goes with them. */
export class Image {
  /** Folder of the storage, in which other files may be put. */
  readonly folder: string;
  #base = '';

  private constructor(folder: string) {
    this.folder = folder;
  }

  /**
   * Makes the base image that docker/Dockerfile names, of Debian's packages and this project's Node, and builds `partyline`; or
   * loads both, if the same sources were built before.
   */
  static async build(): Promise<Image> {
    await mkdir(dirname(DEBIAN), { recursive: true });
    const folder = await mkdtemp(join(tmpdir(), 'partyline-image-'));
    const image = new Image(folder);
    try {
      await mkdir(join(folder, 'tmp'));
      if (!existsSync(DEBIAN)) image.#unpackDebian();
      const dockerfile = await readFile(join(PROJECT, 'docker/Dockerfile'), 'utf8');
      const [base, ...others] = new Set(
        [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, name]) => name!),
      );
      if (base === undefined || others.length > 0) throw new Error('it is to have one base image');
      image.#base = base;
      const names = [`docker.io/library/${base}`, 'localhost/partyline:latest'];
      const built = join(BUILT, await hashOfSources());
      if (existsSync(built)) {
        for (const name of names) image.buildah('pull', `docker-archive:${archiveIn(built, name)}`);
        return image;
      }
      await image.#makeBase(base);
      if (existsSync(MEDIA_WORKERS)) await image.#seedCache(base);
      image.#bud('docker/Dockerfile', 'partyline', PROJECT);
      await image.#keep(names, built);
    } catch (fault) {
      await image.remove();
      throw fault;
    }
    return image;
  }

  /** Builds another image on the same base. @param dockerfile its path in the project */
  add(dockerfile: string, name: string): void {
    this.#bud(dockerfile, name, PROJECT);
  }

  /** Builds an image of lines that follow `FROM` in a Dockerfile. @param from another image; without, the base of all */
  async addLines(name: string, lines: string[], from = this.#base): Promise<void> {
    const folder = await mkdtemp(join(this.folder, 'lines-'));
    await writeFile(join(folder, 'Dockerfile'), [`FROM ${from}`, ...lines, ''].join('\n'));
    this.#bud(join(folder, 'Dockerfile'), name, folder);
  }

  /** Configuration of an image, in docker's format. */
  config(name = 'partyline'): ImageConfig {
    const text = this.buildah('inspect', '--type', 'image', name);
    return (JSON.parse(text) as { Docker: { config: ImageConfig } }).Docker.config;
  }

  /** Makes a container. @returns its id */
  newContainer(name = 'partyline'): string {
    return this.buildah('from', '--pull-never', name).trim();
  }

  /** The root of a container on this machine. */
  mount(container: string): string {
    return this.buildah('mount', container).trim();
  }

  /** A command that runs another in a container, as its user, on this machine's network. */
  runCommand(container: string, environment: Record<string, string>, command: string[]): string[] {
    const variables = Object.entries(environment).flatMap(([name, value]) => [
      '--env',
      `${name}=${value}`,
    ]);
    const options = ['--isolation', 'chroot', ...variables];
    return ['buildah', ...this.storage, 'run', ...options, container, '--', ...command];
  }

  /** Runs buildah. @returns its output */
  buildah(...words: string[]): string {
    return execFileSync('buildah', [...this.storage, ...words], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, TMPDIR: join(this.folder, 'tmp') },
      maxBuffer: 1 << 26,
    });
  }

  async remove(): Promise<void> {
    this.buildah('umount', '--all');
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Options of buildah, and of podman, that name the storage. */
  get storage(): string[] {
    const [root, runRoot] = [join(this.folder, 'storage'), join(this.folder, 'run')];
    return ['--root', root, '--runroot', runRoot, '--storage-driver', 'vfs'];
  }

  /** Keeps images for the next build of the same sources, in place of those of others. */
  async #keep(names: string[], folder: string): Promise<void> {
    await rm(BUILT, { recursive: true, force: true });
    const part = `${folder}.part`;
    await mkdir(part, { recursive: true });
    for (const name of names) {
      this.buildah('push', name, `docker-archive:${archiveIn(part, name)}:${name}`);
    }
    await rename(part, folder);
  }

  #unpackDebian(): void {
    const root = join(this.folder, 'trixie');
    const options = ['--variant=minbase', '--include=ca-certificates', 'trixie', root];
    execFileSync('debootstrap', options, { stdio: 'pipe' });
    execFileSync('tar', ['-cf', `${DEBIAN}.part`, '-C', root, '.']);
    execFileSync('mv', [`${DEBIAN}.part`, DEBIAN]);
  }

  /** Node and npm stand where the official image has them. */
  async #makeBase(name: string): Promise<void> {
    const local = join(this.folder, 'base/usr/local');
    const version = execFileSync('npm', ['--version'], { encoding: 'utf8' }).trim();
    const pack = ['pack', '--silent', '--pack-destination', this.folder, `npm@${version}`];
    execFileSync('npm', pack, { stdio: 'pipe' });
    const modules = join(local, 'lib/node_modules/npm');
    await mkdir(join(local, 'bin'), { recursive: true });
    await cp(join(PROJECT, 'node_modules/node/bin/node'), join(local, 'bin/node'));
    await mkdir(modules, { recursive: true });
    const archive = join(this.folder, `npm-${version}.tgz`);
    execFileSync('tar', ['-xzf', archive, '--strip-components=1', '-C', modules]);
    for (const program of ['npm', 'npx']) {
      const script = `#!/bin/sh\nexec node /usr/local/lib/node_modules/npm/bin/${program}-cli.js "$@"\n`;
      await writeFile(join(local, 'bin', program), script, { mode: 0o755 });
    }
    // The certificates that this machine trusts, in case its way to the registry is inspected.
    const trusted = 'etc/ssl/certs/ca-certificates.crt';
    await cp(join('/', trusted), join(this.folder, 'base', trusted));
    await mkdir(join(local, 'etc'));
    await writeFile(join(local, 'etc/npmrc'), `cafile=/${trusted}\n`);
    const container = this.buildah('from', 'scratch').trim();
    this.buildah('add', container, DEBIAN, '/');
    this.buildah('add', container, join(this.folder, 'base'), '/');
    this.buildah('run', '--isolation', 'chroot', container, '--', 'sh', '-euc', PREPARE);
    this.buildah('commit', '--rm', '--format', 'docker', container, `docker.io/library/${name}`);
  }

  async #seedCache(base: string): Promise<void> {
    const folder = join(this.folder, 'seed');
    await cp(MEDIA_WORKERS, join(folder, 'media-worker'), { recursive: true });
    await writeFile(join(folder, 'Dockerfile'), `FROM ${base}\n${SEED}`);
    this.#bud(join(folder, 'Dockerfile'), 'seed', folder);
  }

  #bud(dockerfile: string, name: string, context: string): void {
    const options = ['--isolation', 'chroot', '--format', 'docker', '--pull-never'];
    const file = join(context, dockerfile.startsWith('/') ? 'Dockerfile' : dockerfile);
    this.buildah('bud', ...options, '--file', file, '--tag', name, context);
  }
}

const archiveIn = (folder: string, image: string) =>
  join(folder, `${image.replaceAll('/', '_').split(':')[0]}.tar`);

/** Hash of all that images are made of: the files of their build, this Node, and Debian's packages. */
async function hashOfSources(): Promise<string> {
  const ignored = (await readFile(join(PROJECT, '.dockerignore'), 'utf8'))
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((path) => `--exclude=./${path}`);
  const sameWhenever = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  const words = [
    ...sameWhenever,
    '--anchored',
    '--no-wildcards-match-slash',
    ...ignored,
    '-C',
    PROJECT,
    '-cf',
    '-',
    '.',
  ];
  const sources = execFileSync('tar', words, { maxBuffer: 1 << 28 });
  const { mtimeMs } = await stat(DEBIAN);
  return createHash('sha256').update(sources).update(`${process.version} ${mtimeMs}`).digest('hex');
}
