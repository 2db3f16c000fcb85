import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const MODULE = fileURLToPath(new URL('../../src/processes/bounded-exit.ts', import.meta.url));
/** Code that never goes on. */
const HANG = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)';

/** Time after which a program that has not ended is killed. */
const END_WITHIN_MS = 15_000;

/** The command that follows is process 1 of a PID namespace, as in a container without an init. */
const AS_FIRST = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];
const canBeFirst = spawnSync(AS_FIRST[0]!, [...AS_FIRST.slice(1), 'true']).status === 0;

/**
 * Runs a program that has what {@link MODULE} exports.
 * @param before command that runs the program
 * @returns its code or signal, and what it has printed
 */
async function run(program: string, before: string[] = []) {
  const source = `import { boundExit, exitNow } from '${MODULE}';\n${program}`;
  const command = [...before, process.execPath, '--input-type=module', '--eval', source];
  const child = spawn(command[0]!, command.slice(1), {
    timeout: END_WITHIN_MS,
    killSignal: 'SIGKILL',
  });
  let output = '';
  child.stdout.on('data', (bytes: Buffer) => (output += bytes.toString()));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  return { ended: code ?? signal, output };
}

test.each(['process.exit(3)', 'process.exitCode = 3'])(
  'a process that hangs at its end (%s) is ended by the kernel',
  async (end) => {
    const program = `boundExit(1); process.on('exit', () => ${HANG}); ${end};`;
    expect(await run(program)).toEqual({ ended: 'SIGALRM', output: '' });
  },
);

test.skipIf(!canBeFirst).each([
  ['in JavaScript', `process.on('exit', () => ${HANG})`],
  // Functions of `on_exit` run once Node has ended.
  ['in native code', `libc.func('int on_exit(void *, void *)')(libc.symbol('pause'), null)`],
])('the first process of a container that hangs %s at its end is ended, too', async (_, hang) => {
  const program = `import koffi from 'koffi';
    const libc = koffi.load(null);
    boundExit(1); ${hang}; console.log(process.pid); process.exitCode = 3;`;
  expect(await run(program, AS_FIRST)).toEqual({ ended: 14, output: '1\n' });
});

test('a process that does not hang ends by itself', async () => {
  expect(await run('boundExit(60); process.exitCode = 3;')).toEqual({ ended: 3, output: '' });
});

test('an exit at once has its code, whatever threads do, and what listens to the exit is called', async () => {
  const thread = `new Worker("${HANG}", { eval: true })`;
  const told = `process.on('exit', (code) => console.log('ended', code))`;
  const program = `import { Worker } from 'node:worker_threads';
    ${thread}.once('online', () => { console.log('hangs'); exitNow(3); });
    ${told};`;
  expect(await run(program)).toEqual({ ended: 3, output: 'hangs\nended 3\n' });
});
