import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { PATIENCE_MS } from '../../packages/canary/src/connection.ts';
import { runRound } from '../../packages/canary/src/round.ts';
import { counters } from '../../src/counters.ts';
import { runCanaryOnce, startCanary } from '../support/canary.ts';
import { freePort } from '../support/free-ports.ts';
import { eventually } from '../support/gateway.ts';
import { openRepeatingProxy } from '../support/repeating-proxy.ts';
import { useStack } from '../support/use-stack.ts';
import { CERTIFICATE_FILE, WebSocketBalancer } from '../support/websocket-balancer.ts';

const { openGateway, openNodes, cleanUps } = useStack();

const NEVER = new AbortController().signal;
const PATIENCE = { timeout: 40_000, interval: 0 };

/** Runs the command, as an operator does. */
const runCanary = (url: string, apiKey: string) =>
  runCanaryOnce({ url, apiKey, caFile: CERTIFICATE_FILE });

const silentOf = ({ directions }: Awaited<ReturnType<typeof runRound>>) =>
  directions.filter(({ isSilent }) => isSilent).map(({ from, to }) => `${from} ${to}`);

test('hears all four ways through a load balancer of two nodes, and fails when a way is mute', async () => {
  const nodes = await openNodes(2);
  const urls = nodes.map(({ url }) => url);
  const whole = await WebSocketBalancer.open(urls);
  const broken = await WebSocketBalancer.open(urls, (peer) => peer.endsWith('websocket-speaker'));
  cleanUps.push(
    () => whole.close(),
    () => broken.close(),
  );
  const key = nodes[0]!.apiKey;
  let output = '';
  const codeOfRound = async () => {
    const round = await runCanary(whole.url, key);
    ({ output } = round);
    return round.code;
  };
  await expect.poll(codeOfRound, PATIENCE).toBe(0);
  expect(output).toContain('minutes an hour');
  expect(output.match(/ to .* ms .* lost .* dB/g)).toHaveLength(4);
  expect(output).toMatch(/WebSocket +joined in \d+ ms, \d+ ms over wss/);
  expect(output).toMatch(/WebRTC +joined in \d+ ms, \d+ ms over udp [\d.:a-f]+/);
  const mute = await runCanary(broken.url, key);
  expect(mute).toMatchObject({ code: 1 });
  expect(mute.output.match(/WebSocket to \w+ +SILENT/g)).toHaveLength(2);
});

test('notices that a media worker died within one round, and hears again when there is another', async () => {
  const gateway = await openGateway(
    { MEDIA_WORKERS: '1' },
    { mediaWorkers: { firstReplacementMs: 50 } },
  );
  const target = { url: gateway.url, key: gateway.apiKey };
  const framesBefore = counters.framesIn;
  const round = runRound(target, NEVER);
  // Microphones open when all have joined.
  await eventually('they speak', () => counters.framesIn > framesBefore);
  for (const pid of gateway.mediaWorkerPids()) process.kill(pid, 'SIGKILL');
  expect(silentOf(await round)).toContain('webrtc webrtc');
  await expect.poll(async () => silentOf(await runRound(target, NEVER)), PATIENCE).toEqual([]);
  await eventually('nothing is left', () => gateway.counts().sessions === 0);
});

/** A server that does not answer peers, and the number of those that wait. */
type Hanging = { url: string; waiting: number };

const urlOf = (server: { address(): unknown }) =>
  `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function openDeafServer(): Promise<Hanging> {
  const server = createServer().listen(0, '127.0.0.1');
  cleanUps.push(() => void server.close());
  await once(server, 'listening');
  const hanging = { url: urlOf(server), waiting: 0 };
  server.on('connection', () => (hanging.waiting += 1));
  return hanging;
}

/** Opens a gateway that reads nothing more once a peer has asked to join. */
async function openHangingGateway(): Promise<Hanging> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  cleanUps.push(() => {
    for (const peer of server.clients) peer.terminate();
    server.close();
  });
  await once(server, 'listening');
  const hanging = { url: urlOf(server), waiting: 0 };
  server.on('connection', (peer) => {
    peer.once('message', () => {
      peer.pause();
      hanging.waiting += 1;
    });
    peer.send(JSON.stringify({ type: 'welcome' }));
  });
  return hanging;
}

test.each([
  ['does not answer', openDeafServer],
  ['hangs in the round', openHangingGateway],
])(
  'has not succeeded when it is stopped, and waits no longer for a gateway that %s',
  async (_, open) => {
    const hanging = await open();
    const canary = startCanary({ url: hanging.url, apiKey: 'pl_x' }, '--once');
    await eventually('all peers wait', () => hanging.waiting === 4);
    const exited = once(canary.child, 'exit');
    const stoppedMs = performance.now();
    canary.child.kill('SIGTERM');
    expect(await exited).toEqual([143, null]);
    expect(performance.now() - stoppedMs).toBeLessThan(PATIENCE_MS / 2);
    expect(canary.output).toBe('');
  },
);

test('says why a peer does not get in', async () => {
  const gateway = await openGateway();
  const { code, output } = await runCanary(gateway.url, 'pl_wrong');
  expect(code).toBe(1);
  expect(output).toMatch(/! websocket speaker: unauthorized: /);
  expect(output.match(/SILENT/g)).toHaveLength(4);
});

test('says that no WebRTC gets through, and hears the rest', async () => {
  // An address of documentation: nothing answers there.
  const gateway = await openGateway({
    RTC_LISTEN_IP: '127.0.0.1',
    RTC_ANNOUNCED_ADDRESS: '192.0.2.77',
  });
  const { code, output } = await runCanary(gateway.url, gateway.apiKey);
  expect(code).toBe(1);
  expect(output).toMatch(/! webrtc listener: /);
  expect(output.match(/SILENT/g)?.length).toBeGreaterThanOrEqual(3);
});

test('hears all four ways where the TURN server does not answer', async () => {
  const port = await freePort();
  const udp = createSocket('udp4').bind(port, '127.0.0.1');
  const tcp = createServer().listen(port, '127.0.0.1');
  await Promise.all([once(udp, 'listening'), once(tcp, 'listening')]);
  cleanUps.push(async () => {
    udp.close();
    tcp.close();
  });
  const gateway = await openGateway({ TURN_URLS: `turn:127.0.0.1:${port}`, TURN_SECRET: 'secret' });
  const target = { url: gateway.url, key: gateway.apiKey };
  await expect.poll(async () => silentOf(await runRound(target, NEVER)), PATIENCE).toEqual([]);
});

test('hears all four ways where the gateway sends a flight of the DTLS handshake again', async () => {
  const port = await freePort();
  const gateway = await openGateway({
    RTC_LISTEN_IP: '127.0.0.1=127.0.0.2',
    RTC_PORT: String(port),
    MEDIA_WORKERS: '1',
  });
  const proxy = await openRepeatingProxy('127.0.0.2', '127.0.0.1', port);
  cleanUps.push(proxy.close);
  let repeated = 0;
  const silentOfRound = async () => {
    const before = proxy.state.repeated;
    const round = await runRound({ url: gateway.url, key: gateway.apiKey }, NEVER);
    repeated = proxy.state.repeated - before;
    return silentOf(round);
  };
  await expect.poll(silentOfRound, PATIENCE).toEqual([]);
  expect(repeated).toBe(4);
});
