import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import { RoomRegistry } from '../../src/rooms/registry.ts';
import { SuspendedPeers } from '../../src/session/suspended-peers.ts';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess } from '../support/process.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openGateway, openRedis, connect, enter, cleanUps } = useStack();

async function start(environment: Record<string, string>) {
  const gateway = await GatewayProcess.start({ USAGE_WORKERS: '0', ...environment });
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  return { gateway, url, apiKey };
}

const statusOf = async (url: string) => (await fetch(url)).status;

test('SIGTERM: calls go on, nobody new comes in, and the node leaves when the last has gone', async () => {
  const { gateway, url, apiKey } = await start({ DRAIN_MS: '20000' });
  const [alice, bob] = [await enter({ url, apiKey }, 'alice'), await enter({ url, apiKey }, 'bob')];
  expect(await statusOf(`${url}/readyz`)).toBe(200);
  gateway.child.kill('SIGTERM');
  expect(await alice.next('draining')).toMatchObject({ deadline_ms: 20_000 });
  expect(await statusOf(`${url}/readyz`)).toBe(503);
  expect(await statusOf(`${url}/healthz`)).toBe(200);
  const late = await connect({ url, apiKey }, { peer: 'late' });
  expect(await late.next('error')).toMatchObject({ code: 'overloaded', retryable: true });
  expect(await late.closed).toBe(1013);
  // A load balancer that can try another node before there is an upgrade.
  const retried = connect({ url, apiKey }, { peer: 'retried' }, { 'x-retry-on': '503' });
  await expect(retried).rejects.toThrow('Unexpected server response: 503');
  const tone = await opusTone(1000, 0.5, 1000);
  await play(alice, tone);
  await eventually('every frame is heard', () => bob.frames.length === tone.length);
  await Promise.all([alice.close(), bob.close()]);
  expect(await gateway.exited).toBe(0);
});

test('SIGTERM: browsers that may stay a while keep their media worker', async () => {
  const { gateway, url, apiKey } = await start({ DRAIN_MS: '20000' });
  const browser = await enter({ url, apiKey }, 'browser');
  const { webrtc } = await browser.ask({ type: 'join', room: 'b', media: 'webrtc' }, 'joined');
  const children = await gateway.descendantPids();
  gateway.child.kill('SIGTERM');
  await browser.next('draining');
  const request = { type: 'restart_ice', transport_id: webrtc?.send_transport.id };
  await browser.ask(request, 'ice_restarted');
  expect(await gateway.descendantPids()).toEqual(children);
  expect(browser.messages.map(({ type }) => type)).not.toContain('media_restarted');
});

test('SIGTERM: who does not leave is closed with 1012 at the deadline', async () => {
  const { gateway, url, apiKey } = await start({ DRAIN_MS: '1000' });
  const alice = await enter({ url, apiKey }, 'alice');
  gateway.child.kill('SIGTERM');
  await alice.next('draining');
  expect(await alice.closed).toBe(1012);
  expect(await gateway.exited).toBe(0);
});

test('a second SIGTERM ends it at once, cleanly', async () => {
  const { gateway, url, apiKey } = await start({ DRAIN_MS: '600000' });
  const alice = await enter({ url, apiKey }, 'alice');
  gateway.child.kill('SIGTERM');
  await alice.next('draining');
  gateway.child.kill('SIGTERM');
  expect(await alice.closed).toBe(1012);
  expect(await gateway.exited).toBe(0);
});

test('a node that closes without a drain refuses a client that is being admitted', async () => {
  const gateway = await openGateway({ MEDIA_WORKERS: '1' });
  const late = await connect(gateway, { peer: 'late' });
  await gateway.close();
  expect(late.messages).toMatchObject([{ type: 'error', code: 'overloaded', retryable: true }]);
  expect(await late.closed).toBe(1013);
});

test('kept places are left behind before their rooms close, which ends requests of their browsers', async () => {
  const leftBehind = vi.spyOn(SuspendedPeers.prototype, 'close');
  const roomsClosed = vi.spyOn(RoomRegistry.prototype, 'close');
  onTestFinished(() => void vi.restoreAllMocks());
  const gateway = await openGateway({ MEDIA_WORKERS: '1' });
  await gateway.close();
  expect(leftBehind).toHaveBeenCalledBefore(roomsClosed);
});

test('POST /api/admin/drain does the same', async () => {
  const operatorKey = 'operator-key-of-the-tests';
  const { gateway, url, apiKey } = await start({ OPERATOR_KEY: operatorKey });
  const alice = await enter({ url, apiKey }, 'alice');
  const response = await fetch(`${url}/api/admin/drain`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operatorKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ deadline_ms: 500 }),
  });
  expect(response.status).toBe(202);
  expect(await alice.next('draining')).toMatchObject({ deadline_ms: 500 });
  expect(await alice.closed).toBe(1012);
  expect(await gateway.exited).toBe(0);
});

test('/readyz says what is missing while Redis is away', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url });
  redis.hang();
  const response = await fetch(`${gateway.url}/readyz`);
  expect(response.status).toBe(503);
  expect(await response.json()).toMatchObject({ ready: false, checks: { redis: false } });
  redis.goOn();
  await eventually('it is ready', async () => (await statusOf(`${gateway.url}/readyz`)) === 200);
});

test('/metrics counts clients, rooms and refusals', async () => {
  const gateway = await openGateway({ MEDIA_WORKERS: '2' });
  await enter(gateway, 'alice');
  const refused = await TestClient.connect(gateway.url, { room: 'a', peer: 'x', api_key: 'no' });
  await refused.closed;
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  for (const line of [
    'partyline_sessions 1',
    'partyline_rooms 1',
    'partyline_websocket_peers 1',
    'partyline_webrtc_peers 0',
    'partyline_media_workers 2',
    'partyline_admissions_total 1',
    'partyline_refusals_total{reason="unauthorized"} 1',
  ]) {
    expect(text).toContain(`${line}\n`);
  }
  expect(text).toContain('partyline_event_loop_delay_seconds{quantile="0.99"}');
  expect(text).not.toContain('alice');
});

test('docker/healthcheck.mjs and docker/drain.mjs ask at the address of HOST', async () => {
  const own = { HOST: '127.0.0.2', OPERATOR_KEY: 'operator-key-of-the-tests' };
  const { gateway, url } = await start(own);
  const env = { ...process.env, ...own, PORT: new URL(url).port, WORKER_PORT: '0' };
  const run = (program: string) => promisify(execFile)(process.execPath, [program], { env });
  await run('docker/healthcheck.mjs');
  await run('docker/drain.mjs');
  expect(await gateway.exited).toBe(0);
});
