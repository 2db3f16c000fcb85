import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { refuseUnparsed, registerProblems } from '../../../src/http/problem.ts';
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

test('rubbish behind a request: answered with 400, unless the response to the request has begun', async () => {
  const app = Fastify({ clientErrorHandler: refuseUnparsed });
  app.get('/whole', () => 'whole');
  app.get('/begun', (_request, reply) => {
    reply.hijack();
    reply.raw.writeHead(200, { 'content-length': 1000 }).write('begun');
  });
  await app.listen({ port: 0 });
  const { port } = app.server.address() as AddressInfo;
  /** Sends a request, and rubbish as soon as it is answered. */
  const told = async (path: string) => {
    const socket = connect(port);
    const all = text(socket);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await once(socket, 'data');
    socket.write('rubbish\r\n\r\n');
    return all;
  };
  expect(await told('/whole')).toContain('HTTP/1.1 400 Bad Request');
  const begun = await told('/begun');
  expect(begun).toContain('begun');
  expect(begun).not.toContain('400');
  await app.close();
});
