import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const MODULE = fileURLToPath(new URL('../../src/processes/bounded-exit.ts', import.meta.url));
/** Code that never goes on. */
const HANG = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)';

/** Runs a program that has what {@link MODULE} exports. @returns its code or signal, and what it has printed */
async function run(program: string) {
  const source = `import { boundExit, exitNow } from '${MODULE}';\n${program}`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source]);
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
