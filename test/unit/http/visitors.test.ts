import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { type AddressInfo, createConnection, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyRequest } from 'fastify';
import { afterEach, describe, expect, test } from 'vitest';
import { ConnectionLimit } from '../../../src/http/connection-limit.ts';
import type { Sender } from '../../../src/http/request-log.ts';
import { UnauthenticatedConnections } from '../../../src/http/unauthenticated-connections.ts';
import { Visitors } from '../../../src/http/visitors.ts';
import { eventually, silentLog } from '../../support/gateway.ts';

const SUMMARY_EVERY_MS = 60_000;

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

describe('beyond the number of connections that descriptors allow', () => {
  /** Opens a server whose clients authenticate once `authenticated` resolves. */
  async function open(maxPerAddress: number, authenticated = Promise.resolve()) {
    const server = Fastify({ forceCloseConnections: true });
    const unauthenticated = new UnauthenticatedConnections(maxPerAddress);
    const limit = new ConnectionLimit(server.server, unauthenticated, silentLog);
    const parts = { isProxied: false, unauthenticated };
    const visitors = new Visitors(server, parts, SUMMARY_EVERY_MS);
    const onRequest = async (request: FastifyRequest) => {
      await authenticated;
      visitors.known(request, 7);
    };
    const body = new Readable({ read: () => {} });
    server.get('/report', { onRequest }, (_request, reply) => reply.send(body));
    server.get('/me', { onRequest }, () => 'me');
    server.get('/open', () => 'open');
    await server.listen({ port: 0, host: '127.0.0.1' });
    cleanUps.push(
      () => server.close(),
      () => visitors.close(),
    );
    const { port } = server.server.address() as AddressInfo;
    const dial = async (count: number, localAddress: string): Promise<Socket[]> => {
      const sockets: Socket[] = [];
      for (let index = 0; index < count; index += 1) {
        const socket = createConnection({ port, host: '127.0.0.1', localAddress });
        socket.on('error', () => {}).resume();
        cleanUps.push(() => socket.destroy());
        await once(socket, 'connect');
        sockets.push(socket);
      }
      // Ended ones are closed in a later turn of the event loop.
      await sleep(30);
      return sockets;
    };
    const ask = async (path: string, agent?: Agent) => {
      const [response] = await once(get({ port, host: '127.0.0.1', path, agent }), 'response');
      return response as Readable;
    };
    return { limit, body, dial, ask };
  }

  test('a long answer to a known client is sent to its end', async () => {
    const { limit, body, dial, ask } = await open(1000);
    limit.allow(20);
    body.push('begun');
    const report = await ask('/report');
    await dial(25, '127.0.0.9');
    body.push(', ended');
    body.push(null);
    expect(await text(report)).toBe('begun, ended');
  });

  test('a client that is being authenticated stays, and one that has sent nothing goes', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { limit, dial, ask } = await open(1000, promise);
    limit.allow(20);
    const agent = new Agent({ keepAlive: true });
    cleanUps.push(() => agent.destroy());
    await text(await ask('/open', agent));
    const silent = await dial(19, '127.0.0.9');
    const answer = ask('/me', agent);
    await sleep(30);
    await dial(1, '127.0.0.9');
    await eventually('a silent one has ended', () => silent[0]!.closed);
    resolve();
    expect(await text(await answer)).toBe('me');
  });

  test('a connection that is refused for its address ends no other', async () => {
    const { limit, dial } = await open(10);
    limit.allow(20);
    const others = await dial(10, '127.0.0.2');
    await dial(10, '127.0.0.9');
    limit.allow(-5);
    const refused = await dial(10, '127.0.0.9');
    await eventually('they are refused', () => refused.every(({ closed }) => closed));
    expect(others.filter(({ closed }) => closed)).toEqual([]);
  });
});

test('changes by the operator and answers with 500 are logged singly, also after 60 requests', async () => {
  const lines: string[] = [];
  const server = Fastify({
    logger: { stream: { write: (line) => void lines.push(line) } },
    disableRequestLogging: true,
  });
  const unauthenticated = new UnauthenticatedConnections(1000);
  const visitors = new Visitors(server, { isProxied: false, unauthenticated }, SUMMARY_EVERY_MS);
  cleanUps.push(() => visitors.close());
  const sentBy = (sender: Sender) => ({
    onRequest: async (request: FastifyRequest) => visitors.known(request, sender),
  });
  server.get('/list', sentBy('operator'), () => 'list');
  server.patch('/account', sentBy('operator'), () => 'changed');
  server.get('/fault', sentBy(7), (_request, reply) => reply.code(500).send('fault'));
  for (let request = 0; request < 70; request += 1) await server.inject('/list');
  for (let request = 0; request < 61; request += 1) await server.inject('/fault');
  await server.inject({ method: 'PATCH', url: '/account' });
  const completed = (url: string) =>
    lines.filter((line) => line.includes('request completed') && line.includes(url)).length;
  expect([completed('/list'), completed('/fault'), completed('/account')]).toEqual([60, 61, 1]);
});
