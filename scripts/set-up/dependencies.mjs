/** Installs the npm packages. One of them, `node`, is the Node that the gateway runs on, whichever version the machine has. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SetUpFailure } from './failure.mjs';
import { find } from './find.mjs';
import { exclusively } from './lock.mjs';
import { bin, nodeModules, readJson, root } from './project.mjs';
import { CommandFailure, run } from './run.mjs';
import { print } from './log.mjs';

const topic = 'npm packages';

/** Installs the packages of package-lock.json, and the Node that is one of them. */
export async function installDependencies() {
  if (isInstalled() && hasItsNode()) return;
  await exclusively(`dependencies of ${root}`, async () => {
    if (!find('npm')) {
      throw new SetUpFailure(
        'Partyline needs npm, and it is not in PATH: run "sudo apt-get install -y npm".',
      );
    }
    if (!isInstalled()) {
      print(topic, 'installing the packages of package-lock.json (npm ci)');
      // Install scripts are off: mediasoup's would download its media worker, or the tools to
      // build it, and fail without a network. Only npm 11 reads `allowScripts`. With
      // NODE_ENV=production npm would leave out `node` and the other development dependencies
      // that set-up needs.
      await npm(['ci', '--ignore-scripts', '--include=dev', '--no-audit', '--no-fund']);
    }
    if (!hasItsNode()) {
      const packages = allowedScripts();
      print(topic, `running the install scripts of ${packages.join(' and ')}`);
      await npm(['rebuild', '--ignore-scripts=false', ...packages]);
    }
    if (!hasItsNode()) {
      throw new SetUpFailure(
        `Partyline needs Node ${pinnedNode()} from the npm package "node", which does not run on this machine: run "npm rebuild node" to see why.`,
      );
    }
  });
}

/**
 * Checks the packages, and that there is a Node for the program; installs nothing.
 *
 * @throws {SetUpFailure} if the packages are not those of package-lock.json, or this Node is too old and the project's is missing
 */
export function requireDependencies() {
  if (!isInstalled()) throw dueBecause('the npm packages are not those of package-lock.json');
  // Without the project's Node the program runs on this one.
  if (hasItsNode() || majorOf(process.version) >= majorOf(pinnedNode())) return;
  throw dueBecause(
    `Node ${pinnedNode()} of the npm packages is missing, and this is ${process.version}`,
  );
}

/** @param {string} reason */
function dueBecause(reason) {
  return new SetUpFailure(
    `Set-up is due, because ${reason}: end the gateway if it runs from this folder, and run "node scripts/set-up.mjs".`,
  );
}

/** @param {string} version */
const majorOf = (version) => Number.parseInt(version.replace('v', ''), 10);

/**
 * Compares npm's record of the installed packages, which npm writes last, with the lock file. An optional package
 * may be absent, because it is for another system. A package for another system must not be present: then
 * node_modules was copied from another machine.
 */
function isInstalled() {
  const record = join(nodeModules, '.package-lock.json');
  if (!existsSync(record)) return false;
  /** @type {Record<string, any>} */
  const installed = readJson(record).packages;
  /** @type {Record<string, any>} */
  const locked = readJson(join(root, 'package-lock.json')).packages;
  return Object.entries(locked).every(([path, wanted]) => {
    if (path === '') return true; // The project itself.
    const present = installed[path];
    if (!present) return Boolean(wanted.optional);
    return (
      present.version === wanted.version &&
      present.integrity === wanted.integrity &&
      (present.os ?? [process.platform]).includes(process.platform) &&
      (present.cpu ?? [process.arch]).includes(process.arch)
    );
  });
}

function hasItsNode() {
  const { stdout } = spawnSync(join(bin, 'node'), ['--version'], { encoding: 'utf8' });
  return stdout?.trim() === `v${pinnedNode()}`;
}

/** @returns {string} */
function pinnedNode() {
  return readJson(join(root, 'package.json')).devDependencies.node;
}

/** @returns {string[]} */
function allowedScripts() {
  const { allowScripts } = readJson(join(root, 'package.json'));
  return Object.keys(allowScripts).filter((name) => allowScripts[name] === true);
}

/** @param {string[]} args */
async function npm(args) {
  try {
    await run('npm', args, { log: 'npm' });
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    error.show();
    throw new SetUpFailure(
      `Partyline needs its npm packages, and could not install them (${error.message}): run "npm ${args.join(' ')}" to see why.`,
    );
  }
}
