import { execFileSync, spawnSync } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FORMAT } from '../../src/store/state-format.ts';
import { startArguments } from './start-arguments.ts';

const PROJECT = join(import.meta.dirname, '../..');
const PARTS = ['src', 'config', 'workers', 'package.json'];

/** A copy of this build that says that it is another version, and perhaps of another format. */
export class OtherBuild {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  static async make({ version, format }: { version: string; format: number }): Promise<OtherBuild> {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-build-'));
    for (const name of PARTS) {
      await cp(join(PROJECT, name), join(folder, name), { recursive: true });
    }
    await linkPackages(folder);
    const replace = async (name: string, from: RegExp, to: string) => {
      const file = join(folder, name);
      const text = await readFile(file, 'utf8');
      if (!from.test(text)) throw new Error(`${name} has no ${from}`);
      await writeFile(file, text.replace(from, to));
    };
    await replace('package.json', /"version": ".+"/, `"version": "${version}"`);
    const lines = `FORMAT = ${format};`;
    await replace('src/store/state-format.ts', new RegExp(`\\bFORMAT = ${FORMAT};`), lines);
    const readable = `READABLE_FROM = ${format - 1};`;
    await replace('src/store/state-format.ts', /READABLE_FROM = \d+;/, readable);
    return new OtherBuild(folder);
  }

  /** Returns whether the history of this folder has a commit. */
  static isKnown(commit: string): boolean {
    return spawnSync('git', ['-C', PROJECT, 'cat-file', '-e', `${commit}^{commit}`]).status === 0;
  }

  /** A build of the history, with the packages and the media worker of this one. */
  static async ofCommit(commit: string): Promise<OtherBuild> {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-build-'));
    const archive = join(folder, 'build.tar');
    execFileSync('git', ['-C', PROJECT, 'archive', '--output', archive, commit, ...PARTS]);
    execFileSync('tar', ['-xf', archive, '-C', folder]);
    await linkPackages(folder);
    return new OtherBuild(folder);
  }

  /** The command that starts its gateway. */
  get gatewayCommand(): string[] {
    const words = startArguments().map((word) => word.replace(PROJECT, this.#folder));
    return [process.execPath, ...words];
  }

  /** Path of one of its programs. */
  program(path: string): string {
    return join(this.#folder, path);
  }

  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }
}

/** Links packages and media worker, which are the same for all builds. */
async function linkPackages(folder: string): Promise<void> {
  for (const name of ['node_modules', 'build']) {
    await symlink(join(PROJECT, name), join(folder, name));
  }
}
