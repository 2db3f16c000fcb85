/**
 * Checks format, lint, words, types and dead code: as many programs at a time as there are cores, the longest first. Prints what each of
 * them says when it ends, and fails if one fails. npm calls it: `npm run check`.
 */
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { delimiter } from 'node:path';
import { text } from 'node:stream/consumers';
import { bin, root } from './set-up/project.mjs';

/** Commands, the longest first. Without `--checkers 1`, tsc checks many types in each of its four threads: twice the work in all. */
const COMMANDS = [
  'prettier --check --log-level warn .',
  'oxlint --type-aware',
  'tsc --checkers 1',
  'tsc -p src --checkers 1',
  'knip',
  'tsc -p web --checkers 1',
  'node scripts/check-words.mjs',
];

const env = {
  ...process.env,
  PATH: [bin, process.env['PATH']].join(delimiter),
  // tsc, and what lints with types, are written in Go. With a core each they check fewer types
  // twice, and with fewer garbage collections they take at most 1.6 GB.
  GOMAXPROCS: '1',
  GOGC: '300',
};

/**
 * Runs a command and prints what it said, with the command before it unless it said nothing.
 * @param {string} command
 * @returns {Promise<boolean>} whether it found no fault
 */
async function check(command) {
  const child = spawn(`${command} 2>&1`, {
    cwd: root,
    env,
    shell: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  const [said, code] = await Promise.all([text(child.stdout), ended]);
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

await Promise.all(Array.from({ length: availableParallelism() }, work));
for (const command of failed) process.stdout.write(`Failed: ${command}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
