import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually, freeRtcPort, type TestGateway } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** WebRTC ports of media workers that other programs take while a media worker is replaced. */

const { openGateway, connect, enter, cleanUps } = useStack();

const TIMINGS = {
  load: { sampleEveryMs: 50 },
  mediaWorkers: {
    firstReplacementMs: 500,
    longestReplacementMs: 500,
    longestWaitMs: 200,
    longestRoomRetryMs: 200,
  },
};

async function openWorkers(count: number) {
  const port = freeRtcPort();
  const environment = {
    MEDIA_WORKERS: String(count),
    RTC_PORT: String(port),
    RTC_LISTEN_IP: '127.0.0.1',
  };
  return { node: await openGateway(environment, TIMINGS), port };
}

async function metricOf({ url }: TestGateway, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`partyline_${name} `));
  return Number(line?.split(' ')[1]);
}

const untilMetric = (node: TestGateway, name: string, value: number) =>
  eventually(`${name} is ${value}`, async () => (await metricOf(node, name)) === value);

/** Takes a port as soon as it is free. @returns a function that gives it back */
async function takePort(port: number): Promise<() => Promise<void>> {
  for (;;) {
    const socket = createSocket('udp4');
    const listening = once(socket, 'listening').then(() => true);
    socket.bind(port, '127.0.0.1');
    if (await listening.catch(() => false)) {
      let closed: Promise<unknown> | undefined;
      const giveBack = async () => {
        closed ??= once(socket.close(), 'close');
        await closed;
      };
      cleanUps.push(giveBack);
      return giveBack;
    }
    socket.close();
    await setImmediate();
  }
}

/** Kills the first media worker twice: the second replacement waits, and its port is taken meanwhile. */
async function losePort(node: TestGateway, port: number) {
  const all = node.mediaWorkerPids().length;
  const kill = async () => {
    const [pid = 0] = node.mediaWorkerPids();
    process.kill(pid, 'SIGKILL');
    await eventually('it is lost', () => !node.mediaWorkerPids().includes(pid));
  };
  await kill();
  await eventually('it is replaced', () => node.mediaWorkerPids().length === all);
  await kill();
  return takePort(port);
}

async function expectHeard(speaker: TestClient, listener: TestClient): Promise<void> {
  const before = listener.frames.length;
  const tone = await opusTone(1000, 0.5, 300);
  await play(speaker, tone);
  await eventually('every frame', () => listener.frames.length - before === tone.length);
}

async function expectBrowserLetIn(node: TestGateway): Promise<void> {
  const browser = await connect(node, { peer: 'browser', room: '__lobby__' });
  const answerOf = async () => {
    const from = browser.messages.length;
    browser.send({ type: 'join', room: 'a', media: 'webrtc' });
    return browser.until('answer', () =>
      browser.messages.slice(from).find(({ type }) => type === 'joined' || type === 'error'),
    );
  };
  // A room whose media worker died tries again after a moment.
  await eventually('it is let in', async () => {
    const answer = await answerOf();
    if (answer.type === 'error' && answer.code !== 'media_lost') throw new Error(answer.message);
    return answer.type === 'joined' && answer.webrtc !== undefined;
  });
}

test('the port of the only media worker is taken: calls go on, newcomers are refused, a further room is too, and all is well when it is given back', async () => {
  const { node, port } = await openWorkers(1);
  const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];
  const giveBack = await losePort(node, port);
  await untilMetric(node, 'short{resource="ports"}', 1);
  await untilMetric(node, 'media_workers_missing', 1);
  const newcomer = await connect(node, { peer: 'newcomer' });
  expect(await newcomer.next('error')).toMatchObject({
    code: 'overloaded',
    message: 'This node is short of ports.',
    retry_after_ms: expect.any(Number) as number,
  });
  expect(await newcomer.closed).toBe(1013);
  expect((await fetch(`${node.url}/readyz`)).status).toBe(503);
  await expectHeard(ada, bob);
  const refusal = { code: 'overloaded', retry_after_ms: TIMINGS.mediaWorkers.longestWaitMs };
  expect(await bob.ask({ type: 'join', room: 'another' }, 'error')).toMatchObject(refusal);
  expect(await bob.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({
    peers: [{ peer: 'ada' }],
  });
  await expectHeard(ada, bob);

  await giveBack();
  await untilMetric(node, 'short{resource="ports"}', 0);
  await untilMetric(node, 'media_workers_missing', 0);
  await untilMetric(node, 'ready', 1);
  await expectBrowserLetIn(node);
  await expectHeard(ada, bob);
});

test('the port of one of two media workers is taken: rooms open on the other, newcomers are let in, and it is told that one is missing', async () => {
  const { node, port } = await openWorkers(2);
  const giveBack = await losePort(node, port);
  await untilMetric(node, 'resource_free_ratio{resource="ports"}', 0.5);
  expect(await metricOf(node, 'media_workers_missing')).toBe(1);
  expect(await metricOf(node, 'short{resource="ports"}')).toBe(0);
  await expectBrowserLetIn(node);
  await giveBack();
  await untilMetric(node, 'media_workers_missing', 0);
  await eventually(
    'both have their ports',
    async () => (await metricOf(node, 'resource_free_ratio{resource="ports"}')) > 0.5,
  );
});
