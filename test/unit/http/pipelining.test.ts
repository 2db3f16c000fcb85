import { EventEmitter, once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { limitPipelining } from '../../../src/http/pipelining.ts';
import { Slices } from '../../../src/slices.ts';

const onFault = (fault: unknown) => {
  throw fault;
};
const turn = () => new Promise(setImmediate);

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
  limitPipelining(server, new Slices(onFault), () => (state.refused += 1));
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

test('of requests that come at once 16 wait, and the next ends the connection and all of them', async () => {
  const { connection, responses, state } = await openConnection();
  connection.write(requests(1));
  await expect.poll(() => responses.length).toBe(1);
  connection.write(requests(1000));
  await once(connection, 'close');
  await expect.poll(() => state.closed).toBe(1);
  expect(responses).toHaveLength(1);
  expect(state).toMatchObject({ read: 17, refused: 1 });
});

test('a connection may send any number of requests, as long as they are answered: one at a time', async () => {
  const { connection, responses, state } = await openConnection();
  for (let round = 0; round < 5; round += 1) {
    connection.write(requests(16));
    for (let request = 1; request <= 16; request += 1) {
      await expect.poll(() => responses.length).toBe(round * 16 + request);
      responses.at(-1)!.end(`answer ${round * 16 + request}.`);
    }
  }
  await expect.poll(() => state.answers).toContain('answer 80.');
  const answers = Array.from({ length: 80 }, (_, index) => `answer ${index + 1}.`);
  expect(state.answers.match(/answer \d+\./g)).toEqual(answers);
  expect(state).toMatchObject({ closed: 80, refused: 0 });
});

test('a request with a body is handled after the one before it, and has its body', async () => {
  const { connection, responses, state } = await openConnection();
  const body = 'Host: a\r\nContent-Length: 100000\r\n';
  connection.write(`${requests(1)}${requests(1, body)}${'x'.repeat(100_000)}${requests(1)}`);
  await expect.poll(() => responses.length).toBe(1);
  responses[0]!.end();
  await expect.poll(() => responses.length).toBe(2);
  let bytes = 0;
  for await (const chunk of responses[1]!.req) bytes += (chunk as Buffer).length;
  expect(bytes).toBe(100_000);
  responses[1]!.end();
  await expect.poll(() => responses.length).toBe(3);
  expect(state.refused).toBe(0);
});

test('requests that wait when their connection ends are not handled', async () => {
  const { connection, responses, state } = await openConnection();
  connection.write(requests(5));
  await expect.poll(() => responses.length).toBe(1);
  connection.destroy();
  await expect.poll(() => state.closed).toBe(1);
  await turn();
  expect(responses).toHaveLength(1);
});

test('requests of many connections are handled in slices, in turn between networks', async () => {
  let nowMs = 0;
  const handled: string[] = [];
  const server = new EventEmitter();
  server.on('request', ({ url }: { url: string }) => {
    nowMs += 1;
    handled.push(url);
  });
  limitPipelining(server as Server, new Slices(onFault, () => nowMs), () => {});
  const arrive = (remoteAddress: string, url: string) => {
    const request = { socket: { remoteAddress }, headers: {}, url };
    server.emit('request', request, new EventEmitter());
  };
  for (let request = 1; request <= 4; request += 1) arrive('192.0.2.1', `first ${request}`);
  arrive('192.0.2.2', 'second');
  expect(handled).toEqual([]);
  await turn();
  expect(handled).toEqual(['first 1', 'second', 'first 2']);
  await turn();
  expect(handled).toEqual(['first 1', 'second', 'first 2', 'first 3', 'first 4']);
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

test.each([
  ['with an Expect that is unknown', 'Host: a\r\nExpect: x\r\n', 417],
  ['without a host', '', 400],
])('a request %s is told so in a problem', async (_name, headers, status) => {
  const { connection, state } = await openConnection();
  connection.write(requests(1, headers));
  await expect.poll(() => state.answers).toMatch(/\}$/);
  const [head, body] = state.answers.split('\r\n\r\n');
  expect(head).toContain('Content-Type: application/problem+json');
  const problem = { status, code: 'bad_request', detail: expect.any(String) as string };
  expect(JSON.parse(body!)).toMatchObject(problem);
});
