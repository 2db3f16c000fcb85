import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { limitPipelining } from '../../../src/http/pipelining.ts';

const requests = (count: number, headers = 'Host: a\r\n') =>
  `GET / HTTP/1.1\r\n${headers}\r\n`.repeat(count);

/** A server that notes responses and how many of them were closed, and a connection to it. */
async function openConnection() {
  const responses: ServerResponse[] = [];
  const state = { answers: '', closed: 0, read: 0, refused: 0 };
  const server = createServer({ requireHostHeader: false }, (_request, response) => {
    responses.push(response);
    response.once('close', () => (state.closed += 1));
  });
  limitPipelining(server, () => (state.refused += 1));
  server.on('request', () => (state.read += 1));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = connect((server.address() as AddressInfo).port, '127.0.0.1');
  connection.on('error', () => {}).setEncoding('latin1');
  connection.on('data', (text: string) => (state.answers += text));
  onTestFinished(() => {
    connection.destroy();
    server.closeAllConnections();
    server.close();
  });
  return { connection, responses, state };
}

test('of requests that come at once 16 are handled, and the next ends the connection and all responses', async () => {
  const { connection, responses, state } = await openConnection();
  connection.write(requests(1000));
  await once(connection, 'close');
  await expect.poll(() => state.closed).toBe(16);
  expect(responses).toHaveLength(16);
  expect(state).toMatchObject({ read: 17, refused: 1 });
});

test('a connection may send any number of requests, as long as they are answered', async () => {
  const { connection, responses, state } = await openConnection();
  for (let round = 1; round <= 5; round += 1) {
    connection.write(requests(16));
    await expect.poll(() => responses.length).toBe(round * 16);
    for (const response of responses.slice(-16)) response.end();
    await expect.poll(() => state.closed).toBe(round * 16);
  }
  expect(connection.destroyed).toBe(false);
});

test.each([
  ['with an Expect that is unknown', 'Host: a\r\nExpect: x\r\n', 417],
  ['with "Expect: 100-continue"', 'Host: a\r\nExpect: 100-continue\r\n', 100],
  ['without a host', '', 400],
])('requests %s count, too, and are answered with %i', async (_name, headers, status) => {
  const one = await openConnection();
  one.connection.write(requests(1, headers));
  await expect.poll(() => one.state.answers).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  expect(one.responses).toHaveLength(status === 100 ? 1 : 0);
  const { connection, state } = await openConnection();
  connection.write(requests(1000, headers));
  await once(connection, 'close');
  expect(state.refused).toBe(1);
  expect(state.answers.split('HTTP/1.1 ').length - 1).toBeLessThanOrEqual(16);
});
