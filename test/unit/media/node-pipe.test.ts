import { EventEmitter } from 'node:events';
import type { Router } from 'mediasoup/types';
import { expect, test } from 'vitest';
import { NodePipe } from '../../../src/media/node-pipe.ts';
import type { Publish } from '../../../src/media/pipe.ts';

/** A producer or a consumer. */
class FakeEnd extends EventEmitter {
  closed = false;
  close(): void {
    this.closed = true;
  }
}

/** A pipe whose media worker answers only when it is told to. */
async function openPipe(publish: Publish = async () => {}) {
  const end = new FakeEnd();
  const answer = Promise.withResolvers<FakeEnd>();
  const transport = {
    id: 't',
    tuple: {},
    srtpParameters: {},
    closed: false,
    close: () => (transport.closed = true),
    produce: () => answer.promise,
    consume: () => answer.promise,
  };
  const router = { createPipeTransport: async () => transport } as unknown as Router;
  const pipe = await NodePipe.open(router, { ip: '127.0.0.1' }, { min: 1, max: 2 }, publish);
  return { pipe, end, answer: () => answer.resolve(end) };
}

test('send and receive of a pipe that is closed meanwhile reject, and close what mediasoup made', async () => {
  for (const ask of [
    (pipe: NodePipe) => pipe.send('p', () => {}),
    (pipe: NodePipe) => pipe.receive('p', { codecs: [] }),
  ]) {
    const { pipe, end, answer } = await openPipe();
    const asked = ask(pipe);
    pipe.close();
    answer();
    await expect(asked).rejects.toThrow('the pipe was closed meanwhile');
    expect(end.closed).toBe(true);
  }
});

test('receive closes a producer that cannot be published', async () => {
  const { pipe, end, answer } = await openPipe(async () => {
    throw new Error('not published');
  });
  answer();
  await expect(pipe.receive('p', { codecs: [] })).rejects.toThrow('not published');
  expect(end.closed).toBe(true);
});
