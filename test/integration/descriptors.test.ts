import { createConnection, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { connect, enter, cleanUps } = useStack();

async function start(environment: Record<string, string> = {}, commandBefore: string[] = []) {
  const gateway = await GatewayProcess.start(environment, undefined, commandBefore);
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  return { gateway, url, apiKey };
}

test('300 connections where there are 160 descriptors: calls go on, and newcomers are let in afterwards', async () => {
  const environment = timingsOf({ load: { sampleEveryMs: 100 } });
  const { gateway, ...node } = await start(environment, ['prlimit', '--nofile=160:160']);
  const [limit] = gateway.output.match(/file descriptors allow \d+ clients/) ?? [];
  expect(Number(limit?.match(/\d+/))).toBeGreaterThan(20);
  const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];

  const { hostname, port } = new URL(node.url);
  const dial = (): Socket => {
    const socket = createConnection(Number(port), hostname);
    cleanUps.push(() => void socket.destroy());
    return socket.on('error', () => {}).resume();
  };
  const attackers = Array.from({ length: 300 }, dial);
  const isRefusing = () => gateway.logged('connections not accepted: too few descriptors left');
  await eventually('connections are not accepted', () => isRefusing().length === 1);
  const tone = await opusTone(1000, 0.5, 500);
  await play(ada, tone);
  await eventually('every frame', () => bob.frames.length === tone.length);
  // It looks at its memory meanwhile, which takes a descriptor.
  expect(gateway.child.exitCode).toBe(null);
  expect(await ada.ask({ type: 'join', room: 'another' }, 'joined')).toMatchObject({ peers: [] });

  for (const socket of attackers) socket.destroy();
  await eventually('a newcomer is let in', async () => {
    try {
      const client = await connect(node, { peer: 'cem' });
      return (await client.until('word', () => client.messages[0])).type === 'welcome';
    } catch {
      return false;
    }
  });
  const metrics = await (await fetch(`${node.url}/metrics`)).text();
  const [, count] = /^partyline_connections_not_accepted_total (\d+)/m.exec(metrics) ?? [];
  expect(Number(count)).toBeGreaterThan(100);
});

test('a rejection that nobody handles is logged, and drains the node', async () => {
  const fault = `process.on('SIGUSR2',()=>{Promise.reject(new Error('nobody_handles_this'))})`;
  const environment = {
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(fault)}`,
    DRAIN_MS: '60000',
  };
  const { gateway, ...node } = await start(environment);
  const client = await enter(node, 'ada');
  gateway.child.kill('SIGUSR2');
  expect(await client.next('draining')).toMatchObject({ deadline_ms: 60_000 });
  const logged = () => gateway.logged('unhandled rejection; draining the node');
  await eventually('it is logged', () => logged().length > 0);
  const [line] = logged();
  expect(line?.['err']).toMatchObject({ message: 'nobody_handles_this' });
  await client.close();
  expect(await gateway.exited).toBe(1);
});
