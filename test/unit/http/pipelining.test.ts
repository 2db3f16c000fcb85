import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { limitPipelining } from '../../../src/http/pipelining.ts';

const requests = (count: number) => 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count);

/** A server that notes responses and how many of them were closed, and a connection to it. */
async function openConnection() {
  const responses: ServerResponse[] = [];
  const state = { closed: 0, read: 0, refused: 0 };
  const server = createServer((_request, response) => {
    responses.push(response);
    response.once('close', () => (state.closed += 1));
  });
  limitPipelining(server, () => (state.refused += 1));
  server.on('request', () => (state.read += 1));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = connect((server.address() as AddressInfo).port, '127.0.0.1');
  connection.on('error', () => {}).resume();
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
