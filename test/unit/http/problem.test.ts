import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { registerProblems } from '../../../src/http/problem.ts';
import { mediaLost } from '../../../src/media/webrtc-leg.ts';
import { notFound, PartylineError } from '../../../src/protocol/errors.ts';

test('a 503 carries Retry-After, also if its fault tells no time', async () => {
  const app = Fastify();
  registerProblems(app);
  const faults = {
    lost: mediaLost(undefined),
    full: new PartylineError('overloaded', 'Full.', { retryAfterMs: 4200 }),
    gone: notFound(),
  };
  for (const [name, fault] of Object.entries(faults)) {
    app.get(`/${name}`, () => {
      throw fault;
    });
  }
  const told = async (url: string) => {
    const { statusCode, headers } = await app.inject(url);
    return [statusCode, headers['retry-after']];
  };
  expect(await told('/lost')).toEqual([503, '1']);
  expect(await told('/full')).toEqual([503, '5']);
  expect(await told('/gone')).toEqual([404, undefined]);
  await app.close();
});
