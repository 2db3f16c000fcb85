import { expect, test } from 'vitest';
import type { Account } from '../../../src/accounts/accounts.ts';
import { ConnectionBudget } from '../../../src/accounts/connection-budget.ts';

const account: Account = { id: 7, name: 'A', email: 'a@localhost', plan: 'free', status: 'active' };
const credentials = { account, keyId: 'k', grant: undefined };
const limited = expect.objectContaining({ code: 'rate_limited', retryAfterMs: 5000 });

test('500 connections of a pro account may come at once, be lost together, and come back', () => {
  const budget = new ConnectionBudget(5000);
  const pro = { ...credentials, account: { ...account, plan: 'pro' as const } };
  const crowd = () => {
    for (let connection = 0; connection < 1500; connection += 1) budget.spend(pro, 'key', 0);
  };
  expect(crowd).not.toThrow();
});

test('a client that connects in a loop is refused before Redis is asked, and admitted again later', () => {
  const budget = new ConnectionBudget(5000);
  const loop = () => {
    for (let connection = 0; connection < 1000; connection += 1)
      budget.spend(credentials, 'key', 0);
  };
  expect(loop).toThrow(limited);
  expect(() => budget.checkKey('key', 0)).toThrow(limited);
  expect(() => budget.checkAccount(7, 0)).toThrow(limited);
  expect(() => budget.checkKey('key', 4000)).toThrow(
    expect.objectContaining({ retryAfterMs: 1000 }),
  );
  budget.checkKey('another', 0);
  budget.checkAccount(8, 0);
  budget.checkKey('key', 5000);
  budget.spend(credentials, 'key', 5000);
});

test('a token of the account is kept out with it', () => {
  const budget = new ConnectionBudget(5000);
  expect(() => {
    for (let connection = 0; connection < 1000; connection += 1) {
      budget.spend(credentials, undefined, 0);
    }
  }).toThrow(limited);
  expect(() => budget.checkAccount(7, 1)).toThrow(
    expect.objectContaining({ code: 'rate_limited' }),
  );
});

test.each(['rate_limited', 'audio_rate_exceeded'] as const)(
  'a connection that was closed with %s counts as many',
  (reason) => {
    const budget = new ConnectionBudget(5000);
    for (let flood = 0; flood < 11; flood += 1) budget.ended(account, reason, 0);
    expect(() => budget.spend(credentials, 'key', 0)).toThrow(limited);
  },
);

test('a connection that ended in another way counts once', () => {
  const budget = new ConnectionBudget(5000);
  for (let left = 0; left < 200; left += 1) budget.ended(account, 'left', 0);
  const comeBack = () => {
    for (let left = 0; left < 200; left += 1) budget.spend(credentials, 'key', 0);
  };
  expect(comeBack).not.toThrow();
});
