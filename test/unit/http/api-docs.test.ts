import Fastify from 'fastify';
import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { asRestServer } from '../../../src/http/api-docs.ts';
import { registerProblems } from '../../../src/http/problem.ts';
import { parseQueryString } from '../../../src/http/query-string.ts';

async function ask(url: string) {
  const app = Fastify({ routerOptions: { querystringParser: parseQueryString } });
  registerProblems(app);
  const schema = {
    params: Type.Object({ id: Type.Integer({ minimum: 1 }), name: Type.String() }),
    querystring: Type.Object({ limit: Type.Optional(Type.Integer({ maximum: 1000 })) }),
  };
  asRestServer(app).get('/:id/:name', { schema }, ({ params, query }) => ({ params, query }));
  const { statusCode, json } = await app.inject(url);
  await app.close();
  return { status: statusCode, body: json<unknown>() };
}

test('asRestServer() reads whole numbers in a path and a query where the schema has one', async () => {
  expect(await ask('/7/8?limit=1000')).toEqual({
    status: 200,
    body: { params: { id: 7, name: '8' }, query: { limit: 1000 } },
  });
});

test.each(['7.9', '7.0', '7e0', '0x7', '007', '+7', '-7', 'true', '%207', '7abc', '1,000', ''])(
  'asRestServer() takes the account "%s" for no number',
  async (id) => {
    const { status, body } = await ask(`/${id}/a`);
    expect(status).toBe(400);
    expect(body).toMatchObject({ detail: 'params: id must be integer.' });
  },
);

test.each(['limit=1.9', 'limit=true', 'limit=1&limit=2', 'limit='])(
  'asRestServer() refuses the query "%s"',
  async (query) => {
    expect(await ask(`/7/a?${query}`)).toMatchObject({
      status: 400,
      body: { detail: 'querystring: limit must be integer.' },
    });
  },
);

test('asRestServer() refuses a number above the maximum', async () => {
  expect(await ask('/7/a?limit=1001')).toMatchObject({ status: 400 });
});
