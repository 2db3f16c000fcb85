import { execFileSync } from 'node:child_process';
import { hostname } from 'node:os';
import { expect, test } from 'vitest';

/** Runs a program in a process of its own, and returns the lines that it logs. */
function logOf(program: string): Record<string, unknown>[] {
  const script = `
    const { readSettings } = await import('./config/settings.ts');
    const { openLog } = await import('./src/log.ts');
    ${program}
  `;
  const lines = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
  });
  return lines
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

test('a process without an HTTP server logs the lines that a gateway logs', () => {
  const [started, failed, ...others] = logOf(`
    const log = openLog(readSettings({ LOG_LEVEL: 'info' }), 'usage');
    log.debug('not logged');
    log.info({ port: 1 }, 'started');
    log.error({ err: new TypeError('wrong') }, 'failed');
  `);
  const common = { time: expect.any(Number), pid: expect.any(Number), hostname: hostname() };
  expect(started).toEqual({ ...common, level: 30, name: 'usage', port: 1, msg: 'started' });
  const stack = expect.stringMatching(/^TypeError: wrong\n    at /) as string;
  const err = { type: 'TypeError', message: 'wrong', stack };
  expect(failed).toEqual({ ...common, level: 50, name: 'usage', err, msg: 'failed' });
  expect(others).toEqual([]);
});
