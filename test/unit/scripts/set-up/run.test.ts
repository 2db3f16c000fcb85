import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

const PROJECT = join(import.meta.dirname, '../../../..');
/** Folder of the logs of set-up. */
const LOGS = join(PROJECT, 'build/set-up');

/** A program that prints a line, works for a while, and then prints another one. */
const WORKING = `console.log('begun'); setTimeout(() => console.log('done'), 300);`;

/** Runs a program in a process of its own, as set-up runs programs. @returns what it prints */
async function runWorking(
  log: string,
  command = [process.execPath, '-e', WORKING],
): Promise<string> {
  const [program, ...args] = command;
  const script = `
    import { asFailure, SetUpFailure } from './scripts/set-up/failure.mjs';
    import { run } from './scripts/set-up/run.mjs';
    const onLine = (line) => console.log(line);
    try {
      await run(${JSON.stringify(program)}, ${JSON.stringify(args)}, { log: '${log}', onLine });
      console.log('succeeded');
    } catch (error) {
      if (!(error instanceof SetUpFailure)) console.log(asFailure(error).message);
    }`;
  const words = ['--input-type=module', '-e', script];
  return (await promisify(execFile)(process.execPath, words, { cwd: PROJECT })).stdout;
}

/** Makes a folder for the log of a test. @returns the name of the log, without its ending */
async function openLog(): Promise<string> {
  await mkdir(LOGS, { recursive: true });
  const folder = await mkdtemp(join(LOGS, 'test-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, 'log').slice(LOGS.length + 1);
}

test('the output of a program goes to its log', async () => {
  const log = await openLog();
  expect(await runWorking(log)).toBe('begun\ndone\nsucceeded\n');
  expect(await readFile(join(LOGS, `${log}.log`), 'utf8')).toMatch(/^\n\$ .*\nbegun\ndone\n$/);
});

/** Sentence with which set-up ends; no step that may do without its program takes the failure for its own. */
const LOG_FAILURE =
  /^Set-up stopped, because .*: build\/set-up\/.*log\.log cannot be written: ENOSPC: .*\.$/;

test('a log that cannot be written ends set-up with one sentence, after the program has ended', async () => {
  const log = await openLog();
  await symlink('/dev/full', join(LOGS, `${log}.log`));
  const [begun, done, failure, ...more] = (await runWorking(log)).trim().split('\n');
  expect([begun, done, more]).toEqual(['begun', 'done', []]);
  expect(failure).toMatch(LOG_FAILURE);
});

test('a log that cannot be written ends set-up also when the program cannot be started, which is known sooner', async () => {
  const log = await openLog();
  await symlink('/dev/full', join(LOGS, `${log}.log`));
  expect((await runWorking(log, ['/nowhere/program'])).trim()).toMatch(LOG_FAILURE);
});
