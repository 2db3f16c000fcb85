/**
 * Checks format, lint, words, types and dead code: as many programs at a time as there are cores and memory for, the longest
 * first. Prints what each of them says when it ends, and fails if one fails. npm calls it: `npm run check`.
 */
import { spawn } from 'node:child_process';
import { availableParallelism, constants, totalmem } from 'node:os';
import { delimiter } from 'node:path';
import { text } from 'node:stream/consumers';
import { bin, root } from './set-up/project.mjs';

const isTerminal = process.stdout.isTTY;
const tsc = isTerminal ? 'tsc --pretty --checkers 1' : 'tsc --checkers 1';

/** Commands, the longest first. */
const COMMANDS = [
  'prettier --check --log-level warn .',
  'oxlint --type-aware',
  tsc,
  `${tsc} -p src`,
  'knip',
  `${tsc} -p web`,
  'node scripts/check-words.mjs',
];

const env = {
  ...process.env,
  PATH: [bin, process.env['PATH']].join(delimiter),
  // The commands write to a pipe, which they take for no terminal.
  ...(isTerminal && { FORCE_COLOR: '1' }),
  // tsc and the linter that knows types are written in Go. With one thread each (`--checkers 1`,
  // too), types are checked once. With fewer garbage collections each takes at most 1.6 GB.
  GOMAXPROCS: '1',
  GOGC: '300',
};

/** Memory for one command, bytes. */
const COMMAND_BYTES = 2 * 1024 ** 3;
/** Memory that this process may use, bytes: that of the machine, or the limit that is set, if it is lower. */
const memoryBytes = Math.min(totalmem(), process.constrainedMemory() || Infinity);
const atOnce = Math.min(
  availableParallelism(),
  Math.max(1, Math.floor(memoryBytes / COMMAND_BYTES)),
);

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
for (const signal of /** @type {NodeJS.Signals[]} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.once(signal, () => {
    for (const { pid } of running) if (pid !== undefined) endGroup(pid, signal);
    process.exit(128 + constants.signals[signal]);
  });
}

/**
 * Ends a shell and the programs that it has started.
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
function endGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // All of them have ended.
  }
}

/**
 * Runs a command, and prints it and what it said, unless it succeeded in silence.
 * @param {string} command
 * @returns {Promise<boolean>} whether it found no fault
 */
async function check(command) {
  const child = spawn(`${command} 2>&1`, {
    cwd: root,
    detached: true,
    env,
    shell: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.add(child);
  const ended = new Promise((resolve) => child.once('close', resolve));
  const [said, code] = await Promise.all([text(child.stdout), ended]);
  running.delete(child);
  if (said !== '' || code !== 0) process.stdout.write(`> ${command}\n${said}`);
  return code === 0;
}

const waiting = COMMANDS.values();
/** @type {string[]} */
const failed = [];

/** Runs one command after the other, until none is left. */
async function work() {
  for (const command of waiting) if (!(await check(command))) failed.push(command);
}

await Promise.all(Array.from({ length: atOnce }, work));
for (const command of failed) process.stdout.write(`Failed: ${command}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
