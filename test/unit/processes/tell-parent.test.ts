import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const MODULE = fileURLToPath(new URL('../../../src/processes/tell-parent.ts', import.meta.url));
/** Code that stands still for a second, in which nothing of the parent is noticed. */
const STALL = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);';

/** Starts a program that has what {@link MODULE} exports. */
const start = (program: string, channel: 'ipc'[] = ['ipc']) =>
  spawn(
    process.execPath,
    ['--input-type=module', '--eval', `import { tellParent } from '${MODULE}';\n${program}`],
    { stdio: ['ignore', 'inherit', 'inherit', ...channel], timeout: 30_000 },
  );

test('the parent is told, and the channel does not keep the process', async () => {
  const child = start("tellParent({ type: 'alive' });");
  expect(await once(child, 'message')).toEqual([{ type: 'alive' }, undefined]);
  expect(await once(child, 'exit')).toEqual([0, null]);
});

test('a process whose parent dies at that moment continues', async () => {
  const child = start(`tellParent({}); ${STALL} tellParent({}); setTimeout(() => {}, 200);`);
  child.once('message', () => child.disconnect());
  expect(await once(child, 'exit')).toEqual([0, null]);
});

test('a process that was started without a channel tells nothing', async () => {
  const child = start('tellParent({});', []);
  expect(await once(child, 'exit')).toEqual([0, null]);
});
