import { beforeEach, afterEach, expect, test, vi } from 'vitest';
import { logFault } from '../../../src/protocol/log-fault.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A log that keeps its lines. */
function openLog() {
  const lines: { level: string; fields: object; message: string | undefined }[] = [];
  const take = (level: string) => (fields: unknown, message?: string) =>
    void lines.push({ level, fields: fields as object, message });
  return { lines, log: { error: take('error'), warn: take('warn') } };
}

const fault = (code: string) => Object.assign(new Error(`it says ${code}`), { code });

test('an unexpected fault is an error in the log, and gives nothing away to the client', () => {
  const { lines, log } = openLog();
  const err = fault('ECONNRESET');
  expect(logFault(log, err, 'message failed')).toMatchObject({ code: 'internal_error' });
  expect(lines).toEqual([{ level: 'error', fields: { err }, message: 'message failed' }]);
});

test('errors that the client causes and is told are not logged', () => {
  const { lines, log } = openLog();
  const refusal = new PartylineError('overloaded', 'This node is overloaded.', {
    cause: fault('ENOSPC'),
  });
  expect(logFault(log, refusal, 'message failed')).toBe(refusal);
  expect(lines).toEqual([]);
});

test('a shortage is a warning with its cause, one a second for each resource', () => {
  const { lines, log } = openLog();
  vi.advanceTimersByTime(1000);
  const [disk, descriptors] = [fault('ENOSPC'), fault('EMFILE')];
  for (let times = 0; times < 100; times += 1) {
    expect(logFault(log, disk, 'request failed')).toMatchObject({ code: 'overloaded' });
  }
  logFault(log, descriptors, 'message failed');
  vi.advanceTimersByTime(1000);
  logFault(log, disk, 'session failed');
  expect(lines).toEqual([
    {
      level: 'warn',
      fields: { err: disk, resource: 'disk', unlogged: 0 },
      message: 'request failed',
    },
    {
      level: 'warn',
      fields: { err: descriptors, resource: 'descriptors', unlogged: 0 },
      message: 'message failed',
    },
    {
      level: 'warn',
      fields: { err: disk, resource: 'disk', unlogged: 99 },
      message: 'session failed',
    },
  ]);
});
