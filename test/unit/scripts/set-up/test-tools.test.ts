import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

const PROJECT = join(import.meta.dirname, '../../../..');

/** Runs this step of set-up on a system with this description that has no program at all. @returns what the step prints */
async function provideOn(osRelease: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-tools-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'os-release');
  await writeFile(file, osRelease);
  const script = `
    import { provideTestTools } from './scripts/set-up/test-tools.mjs';
    await provideTestTools('${file}').catch((error) => console.log(error.message));`;
  const options = { cwd: PROJECT, env: { PATH: folder } };
  const words = ['--input-type=module', '-e', script];
  return (await promisify(execFile)(process.execPath, words, options)).stdout;
}

const MISSING =
  /^Partyline needs chromium, firefox-esr, .* could not install them \(apt-get not found\): run "sudo apt-get install -y chromium .*"\./;

test('on Debian a failure names the packages that are missing, and how they are installed', async () => {
  const said = await provideOn('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n');
  expect(said).toMatch(MISSING);
  expect(said).not.toContain('run the tests on Debian');
});

test('on another system it also says that they are packages of Debian', async () => {
  const said = await provideOn('PRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu\nID_LIKE=debian\n');
  expect(said).toMatch(MISSING);
  expect(said).toMatch(/ and this is Ubuntu 24\.04\.1 LTS \(.*\): run the tests on Debian\.\n$/);
});
