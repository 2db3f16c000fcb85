import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { asRestServer } from '../../../src/http/api-docs.ts';
import { registerHealthRoutes } from '../../../src/http/health-routes.ts';

test.each([
  ['/healthz', true, 200, undefined],
  ['/readyz', true, 200, undefined],
  ['/healthz', false, 503, '1'],
  ['/readyz', false, 503, '1'],
])(
  '%s of a node that is well or not (%s) has %i, and Retry-After %s',
  async (url, isWell, status, retryAfter) => {
    const app = Fastify();
    const readiness = () => Promise.resolve({ redis: isWell });
    registerHealthRoutes(asRestServer(app), readiness, () => (isWell ? [] : ['gateway 2']));
    const { statusCode, headers } = await app.inject(url);
    expect([statusCode, headers['retry-after']]).toEqual([status, retryAfter]);
    await app.close();
  },
);
