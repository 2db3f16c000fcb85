import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import { afterEach, expect, test, vi } from 'vitest';
import { RequestLog } from '../../../src/http/request-log.ts';

const info = vi.fn<(fields: object, message: string) => void>();
const log = { info } as unknown as FastifyBaseLogger;
const requestWith = (method: string, url = '/api/admin/stats', ws = false) =>
  ({
    method,
    ws,
    routeOptions: { url },
    log,
  }) as unknown as FastifyRequest;

afterEach(() => info.mockClear());

const SUMMARY = [{ account: 'operator', completed: { 200: 40 } }, 'further requests completed'];
const LINE = [expect.objectContaining({ elapsedMs: 1 }), 'request completed'];

test.each([
  ['GET', 121, SUMMARY],
  ['HEAD', 121, SUMMARY],
  ['POST', 200, LINE],
  ['DELETE', 200, LINE],
])('100 requests of the operator by %s: %i lines', (method, lines, last) => {
  const requests = new RequestLog(log, 60_000);
  for (let sent = 0; sent < 100; sent += 1) {
    const request = requestWith(method);
    requests.begin(request, 'operator');
    requests.end(request, 'operator', 200, 1);
  }
  requests.close();
  expect(info).toHaveBeenCalledTimes(lines);
  expect(info.mock.lastCall).toEqual(last);
});

test.each([
  ['GET', '/ws', true, 600, '101'],
  ['POST', '/whip/:room', false, 1200, '201'],
  ['POST', '/whep/:room', false, 1200, '201'],
])(
  'beginnings of sessions by %s %s: those of 500 clients at once are logged singly, of more the rest is one line',
  (method, url, isUpgrade, lines, status) => {
    const requests = new RequestLog(log, 60_000);
    const begin = (times: number) => {
      for (let sent = 0; sent < times; sent += 1) {
        const request = requestWith(method, url, isUpgrade);
        requests.begin(request, 7);
        requests.end(request, 7, Number(status), 1);
      }
    };
    begin(500);
    expect(info).toHaveBeenCalledTimes((lines / 600) * 500);
    begin(2500);
    expect(info).toHaveBeenCalledTimes(lines);
    // Other requests of the account are counted apart.
    requests.begin(requestWith('GET', '/api/me'), 7);
    expect(info).toHaveBeenCalledTimes(lines + 1);
    requests.close();
    const summary = [{ account: 7, completed: { [status]: 2400 } }, 'further requests completed'];
    expect(info.mock.lastCall).toEqual(summary);
  },
);
