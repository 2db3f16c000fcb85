import { EventEmitter } from 'node:events';
import type { Server } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { upgradeInSlices } from '../../../src/http/upgrade-slices.ts';
import { Slices } from '../../../src/slices.ts';

const turn = () => new Promise(setImmediate);

/** A server that takes a millisecond for each upgrade, and notes its number. */
function openServer() {
  let nowMs = 0;
  const handled: number[] = [];
  const server = new EventEmitter();
  server.on('upgrade', (request: number) => {
    nowMs += 1;
    handled.push(request);
  });
  const onFault = (fault: unknown) => {
    throw fault;
  };
  upgradeInSlices(server as Server, new Slices(onFault, () => nowMs));
  const arrive = (request: number) => {
    const connection = new PassThrough();
    server.emit('upgrade', request, connection, Buffer.alloc(0));
    return connection;
  };
  return { handled, arrive };
}

test('upgrades that come at once are handled in slices, in their order', async () => {
  const { handled, arrive } = openServer();
  for (let request = 0; request < 7; request += 1) arrive(request);
  expect(handled).toEqual([]);
  await turn();
  expect(handled).toEqual([0, 1, 2]);
  await turn();
  await turn();
  expect(handled).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test('the upgrade of a connection that breaks meanwhile is not handled', async () => {
  const { handled, arrive } = openServer();
  arrive(0).destroy(new Error('reset'));
  arrive(1);
  await turn();
  expect(handled).toEqual([1]);
});
