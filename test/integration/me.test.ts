import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { createConnection } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { upgradeRequest } from '../support/raw-client.ts';
import { useGateway } from '../support/use-gateway.ts';

const inUse = useGateway();
const { connect } = inUse;

describe('GET /api/me', () => {
  const me = (headers: Record<string, string>) => fetch(`${inUse.gateway.url}/api/me`, { headers });

  test('answers with the account and what it has used', async () => {
    const clientOfTheAccount = await connect();
    await clientOfTheAccount.next('welcome');
    const response = await me({ authorization: `Bearer ${inUse.gateway.apiKey}` });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      account: { id: 1, name: 'Demo', email: 'demo@localhost', plan: 'pro', status: 'active' },
      summary: {
        total_minutes: 0,
        remaining_minutes: 1_000_000_000,
        current_ccu: 1,
        max_ccu: 500,
      },
    });
  });

  test.each([
    ['no header', {}],
    ['another scheme', { authorization: 'Basic eDp5' }],
    ['an unknown key', { authorization: 'Bearer pl_unknown' }],
  ])('with %s is 401 as problem+json', async (_name, headers) => {
    const response = await me(headers);
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
    expect(response.headers.get('content-type')).toContain('application/problem+json');
    expect(await response.json()).toEqual({
      type: 'urn:partyline:error:unauthorized',
      title: 'Unauthorized',
      status: 401,
      detail: expect.any(String),
      code: 'unauthorized',
      request_id: expect.any(String),
    });
  });

  test.each([
    ['/nothing', 404, 'not_found'],
    ['/api/%zz', 400, 'bad_request'],
    ['/ws', 426, 'upgrade_required'],
  ])('GET %s is %i', async (path, status, code) => {
    const response = await fetch(inUse.gateway.url + path);
    expect(response.status).toBe(status);
    expect(response.headers.get('content-type')).toContain('application/problem+json');
    expect(await response.json()).toMatchObject({ code });
    expect(response.headers.get('upgrade')).toBe(status === 426 ? 'websocket' : null);
  });

  test.each(['/', '/ws/', '/v1/ws', '/api/me'])('an upgrade at %s is 404', async (path) => {
    const socket = new WebSocket(inUse.gateway.url.replace('http', 'ws') + path);
    const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
    expect(response.statusCode).toBe(404);
    expect(response.headers['content-type']).toContain('application/problem+json');
  });

  test.each([
    ['GET', '/api/me', ''],
    ['POST', '/api/tokens', '{"peer":"ada","rooms":"*","ttl_seconds":60,"publish":true}'],
  ])(
    '%s %s of a client that offers HTTP/2 is answered over HTTP/1.1',
    async (method, path, body) => {
      const asked = request(inUse.gateway.url + path, {
        method,
        headers: {
          authorization: `Bearer ${inUse.gateway.apiKey}`,
          connection: 'Upgrade, HTTP2-Settings',
          upgrade: 'h2c',
          'http2-settings': 'AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA',
          ...(body && { 'content-type': 'application/json' }),
        },
      });
      asked.end(body);
      const [response] = (await once(asked, 'response')) as [IncomingMessage];
      response.resume();
      expect(response.statusCode).toBe(200);
    },
  );

  /** The whole answer to a request as it is written. */
  const answerTo = async (...lines: string[]) => {
    const { hostname, port } = new URL(inUse.gateway.url);
    const connection = createConnection(Number(port), hostname);
    connection.write([...lines, 'Host: a', 'Connection: close', '\r\n'].join('\r\n'));
    const answer = await text(connection);
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    return { head, status: Number(head.split(' ')[1]), body };
  };

  test.each(['http://a/api/me', 'http://a:80/api/me', 'HTTPS://a/api/me?'])(
    'GET %s, with a host in the request line, is answered',
    async (target) => {
      const authorization = `Authorization: Bearer ${inUse.gateway.apiKey}`;
      const { status } = await answerTo(`GET ${target} HTTP/1.1`, authorization);
      expect(status).toBe(200);
    },
  );

  test.each([
    ['http://a', 200],
    ['http://a?x=1', 200],
    ['http://a/nothing', 404],
    ['ftp://a/api/me', 404],
  ])('GET %s is %i', async (target, status) => {
    expect((await answerTo(`GET ${target} HTTP/1.1`)).status).toBe(status);
  });

  test('an upgrade with a host in the request line is taken', async () => {
    const query = `room=__lobby__&peer=alice&api_key=${inUse.gateway.apiKey}`;
    const { hostname, port } = new URL(inUse.gateway.url);
    const connection = createConnection(Number(port), hostname);
    inUse.keep({ close: async () => void connection.destroy() });
    connection.write(upgradeRequest(new URL(`http://a/ws?${query}`)).replace('/ws', 'http://a/ws'));
    const [chunk] = (await once(connection, 'data')) as [Buffer];
    expect(String(chunk)).toContain('101 Switching Protocols');
  });

  test.each([
    ['a line that is no header', 'bad', 400],
    ['headers of 20 KB', `X: ${'x'.repeat(20_000)}`, 431],
  ])('a request with %s is refused as problem+json', async (_name, header, status) => {
    const answer = await answerTo('GET /api/me HTTP/1.1', header);
    expect(answer.status).toBe(status);
    expect(answer.head).toContain('application/problem+json');
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'bad_request', status });
  });
});
