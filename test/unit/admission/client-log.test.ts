import Fastify, { type FastifyBaseLogger } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Account } from '../../../src/accounts/accounts.ts';
import { ClientLog } from '../../../src/admission/client-log.ts';

const EVERY_MS = 60_000;
const FREE = { id: 1, plan: 'free' } as Account;
const PRO = { id: 2, plan: 'pro' } as Account;

type Line = { msg: string; account?: number; peer?: string; leftOut?: object; level: number };

let lines: Line[];
let clientLog: ClientLog;
let log: FastifyBaseLogger;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  lines = [];
  const stream = { write: (line: string) => void lines.push(JSON.parse(line) as Line) };
  log = Fastify({ logger: { stream } }).log;
  clientLog = new ClientLog(log, EVERY_MS);
});
afterEach(() => {
  clientLog.close();
  vi.useRealTimers();
});

const logOf = (account: Account, peer = 'ada') =>
  clientLog.of(account, log.child({ account: account.id, peer }));

/** Logs what a client does that connects, joins, leaves and goes. */
function comeAndGo(client: FastifyBaseLogger): void {
  client.info('session started');
  client.info({ room: 'a' }, 'room joined');
  client.info({ room: 'a' }, 'room left');
  client.info({ reason: 'closed' }, 'session ended');
}

test('of 500 clients that come and go at once each line is logged, with the fields of its client', () => {
  for (let peer = 0; peer < 500; peer += 1) comeAndGo(logOf(PRO, `p${peer}`));
  expect(lines).toHaveLength(2000);
  expect(lines.at(-3)).toMatchObject({ account: 2, peer: 'p499', room: 'a', msg: 'room joined' });
});

test('of an account that goes on the rest is one line a minute, by messages; others are not concerned', () => {
  const client = logOf(FREE);
  for (let times = 0; times < 1000; times += 1) comeAndGo(client);
  const rest = 4000 - 520;
  expect(lines).toHaveLength(520);
  logOf(PRO).info('session started');
  expect(lines.splice(0)).toHaveLength(521);
  vi.advanceTimersByTime(EVERY_MS);
  expect(lines).toMatchObject([
    {
      msg: 'further lines left out',
      account: 1,
      leftOut: {
        'session started': rest / 4,
        'room joined': rest / 4,
        'room left': rest / 4,
        'session ended': rest / 4,
      },
    },
  ]);
  vi.advanceTimersByTime(EVERY_MS);
  expect(lines).toHaveLength(1);
  comeAndGo(client);
  expect(lines).toHaveLength(5);
});

test('of an hour without pause there are no more lines than the budget and one a minute', () => {
  const client = logOf(FREE);
  for (let minute = 0; minute < 60; minute += 1) {
    for (let times = 0; times < 100; times += 1) comeAndGo(client);
    vi.advanceTimersByTime(EVERY_MS);
  }
  expect(lines.length).toBeLessThanOrEqual(520 + 60 * 60 * 1.2 + 60);
  expect(lines.length).toBeGreaterThan(60 * 60);
});

test('warnings and errors are always logged, and the last lines are counted at the end', () => {
  const client = logOf(FREE);
  for (let times = 0; times < 521; times += 1) client.info('session started');
  client.warn({ err: new Error('no') }, 'lease not released; retrying');
  client.error('session failed');
  expect(lines.splice(520)).toMatchObject([
    { msg: 'lease not released; retrying', peer: 'ada', level: 40 },
    { msg: 'session failed', peer: 'ada', level: 50 },
  ]);
  clientLog.close();
  expect(lines.at(-1)).toMatchObject({ account: 1, leftOut: { 'session started': 1 } });
});
