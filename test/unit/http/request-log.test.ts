import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import { afterEach, expect, test, vi } from 'vitest';
import { RequestLog } from '../../../src/http/request-log.ts';

const info = vi.fn<(fields: object, message: string) => void>();
const log = { info } as unknown as FastifyBaseLogger;
const requestWith = (method: string) =>
  ({
    method,
    ws: null,
    routeOptions: { url: '/api/admin/stats' },
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
