/**
 * Runs programs for set-up. Their output goes to a log file; only the end of it is printed, when a program fails.
 */
import { spawn } from 'node:child_process';
import { createWriteStream, mkdirSync } from 'node:fs';
import { constants } from 'node:os';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { finished } from 'node:stream/promises';
import { machinePath } from './find.mjs';
import { build, root } from './project.mjs';
import { printOutput } from './log.mjs';

const linesShown = 20;
const lookForParentEveryMs = 500;

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
/** @type {NodeJS.Signals | undefined} the signal that asked set-up to stop */
let stoppedBy;

/** A program that could not be started or did not end with 0. */
export class CommandFailure extends Error {
  /**
   * @param {string} program
   * @param {string[]} lines the end of its output
   * @param {string} log path of the file with the whole output
   */
  constructor(program, lines, log) {
    super(`${program} failed; its output is in ${relative(root, log)}`);
    this.lines = lines;
  }

  /** Prints the end of the output, which contains the reason. */
  show() {
    printOutput(this.lines);
  }
}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {object} options
 * @param {string} options.log name of the log file
 * @param {string} [options.cwd]
 * @param {Record<string, string>} [options.env] variables beside those of this process
 * @param {(line: string) => void} [options.onLine]
 * @returns {Promise<void>} once the program has ended; rejects with a CommandFailure, or the error of the system if the log cannot be written
 */
export async function run(program, args, { log, cwd = root, env = {}, onLine }) {
  const logPath = openLogFolder(log);
  const logFile = createWriteStream(logPath, { flags: 'a' });
  /** @type {NodeJS.ErrnoException | undefined} */
  let logFault;
  logFile.on('error', (error) => (logFault ??= error));
  logFile.write(`\n$ ${program} ${args.join(' ')}\n`);

  const child = spawn(program, args, {
    cwd,
    // LC_ALL: the progress of some programs is read from their English output.
    env: { ...process.env, LC_ALL: 'C.UTF-8', ...env, PATH: machinePath },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  /** @type {string[]} */
  const lines = [];
  for (const output of [child.stdout, child.stderr]) {
    createInterface({ input: output }).on('line', (line) => {
      logFile.write(`${line}\n`);
      lines.push(line);
      if (lines.length > linesShown) lines.shift();
      onLine?.(line);
    });
  }

  const status = await new Promise((resolve) => {
    child.once('error', (error) => {
      lines.push(error.message);
      resolve(undefined);
    });
    child.once('close', resolve);
  });
  running.delete(child);
  logFile.end();
  await finished(logFile).catch((error) => (logFault ??= error));
  if (stoppedBy) exitWhenAllStopped(stoppedBy);
  if (logFault) {
    const fault = `${relative(root, logPath)} cannot be written: ${logFault.message}`;
    // No SetUpFailure: steps that can do without their program catch that and go on, but this must
    // end set-up.
    throw Object.assign(new Error(fault), { code: logFault.code });
  }
  if (status !== 0) throw new CommandFailure(program, lines, logPath);
}

/** @param {string} log */
function openLogFolder(log) {
  const folder = join(build, 'set-up');
  mkdirSync(folder, { recursive: true });
  return join(folder, `${log}.log`);
}

/** @param {NodeJS.Signals} signal */
function exitWhenAllStopped(signal) {
  if (running.size === 0) process.exit(128 + constants.signals[signal]);
}

// Set-up ends only after the programs that it started: the next set-up would otherwise run beside
// them.
for (const signal of /** @type {NodeJS.Signals[]} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => stop(signal));
}

/** @param {NodeJS.Signals} signal */
function stop(signal) {
  stoppedBy = signal;
  for (const child of running) child.kill(signal);
  exitWhenAllStopped(signal);
}

/**
 * Ends set-up, as `SIGTERM` does, when its parent process has ended.
 * @param {number} parent process id
 */
export function endWithParent(parent) {
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop('SIGTERM');
  }, lookForParentEveryMs).unref();
}
