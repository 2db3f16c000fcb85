import { expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import type { Account } from '../../../src/accounts/accounts.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import { RequestLimits } from '../../../src/session/request-limits.ts';

const accountOf = (id: number) => ({ id, plan: 'free' }) as Account;

test('charge() refuses an account beyond its budget, and no other', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const limits = new RequestLimits(20, DEFAULT_TIMINGS.budgets);
  const isCharged = (id: number) => {
    try {
      limits.charge(accountOf(id), 5);
      return true;
    } catch (fault) {
      if (PartylineError.from(fault).code === 'rate_limited') return false;
      throw fault;
    }
  };
  const chargeAll = (id: number) => {
    let charged = 0;
    while (isCharged(id)) charged += 1;
    return charged;
  };
  // The burst of a free account is 185 tokens.
  expect(chargeAll(1)).toBe(37);
  expect(chargeAll(1)).toBe(0);
  expect(chargeAll(2)).toBe(37);
});
