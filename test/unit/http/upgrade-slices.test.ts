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
  const slices = new Slices(onFault, () => nowMs);
  upgradeInSlices(server as Server, slices, () => false);
  const arrive = (request: number, remoteAddress = '192.0.2.1') => {
    const connection = Object.assign(new PassThrough(), { remoteAddress });
    server.emit('upgrade', request, connection, Buffer.alloc(0));
    return connection;
  };
  const work = () => void (nowMs += 1);
  return { handled, arrive, slices, work };
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

test('upgrades of other networks do not wait for the requests of many, or for the upgrades of one', async () => {
  const { handled, arrive, slices, work } = openServer();
  for (let network = 0; network < 20; network += 1) {
    for (let request = 0; request < 10; request += 1) slices.add(`flooding ${network}`, work);
  }
  for (let request = 0; request < 10; request += 1) arrive(-1, '192.0.2.1');
  for (let host = 2; host < 12; host += 1) arrive(host, `192.0.2.${host}`);
  while (handled.filter((request) => request > 0).length < 10) await turn();
  expect(handled.filter((request) => request < 0)).toHaveLength(1);
});

test('the upgrade of a connection that breaks meanwhile is not handled', async () => {
  const { handled, arrive } = openServer();
  arrive(0).destroy(new Error('reset'));
  arrive(1);
  await turn();
  expect(handled).toEqual([1]);
});
