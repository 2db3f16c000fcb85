import { Registry } from 'prom-client';
import { expect, test, vi } from 'vitest';
import { collectProcessMetrics } from '../../src/process-metrics.ts';

type Internals = Record<'_getActiveHandles' | '_getActiveRequests', () => unknown[]>;

test('metrics of this process do not list its handles and requests, which may end it', async () => {
  const internals = process as unknown as Internals;
  const spies = [
    vi.spyOn(internals, '_getActiveHandles'),
    vi.spyOn(internals, '_getActiveRequests'),
  ];
  const register = new Registry();
  collectProcessMetrics(register);
  const text = await register.metrics();
  expect(text).toContain('partyline_nodejs_active_resources{');
  expect(text).toContain('partyline_process_open_fds');
  for (const spy of spies) {
    expect(spy).not.toHaveBeenCalled();
    spy.mockRestore();
  }
});
