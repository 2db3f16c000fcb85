import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { whenAllHeard, roundsIn, startCanary } from '../support/canary.ts';
import { makeCertificates, type TestCertificates } from '../support/certificates.ts';
import { freePorts } from '../support/free-ports.ts';
import { eventually } from '../support/gateway.ts';
import { TestHaproxy } from '../support/haproxy.ts';
import { GatewayProcess } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';

/** The canary before gateways that stand as the pages have them; test/deploy/turn.test.ts has it relayed. */

const PATIENCE = { timeout: 60_000, interval: 0 };
/** In two rounds a killed media worker has been replaced, and a busy machine may lose one more. */
const ROUNDS_TO_RECOVER = 4;

const opened = new AsyncDisposableStack();
let certificates: TestCertificates;
let redis: TestRedis;
let apiKey: string;

async function startGateway(environment: Record<string, string>): Promise<GatewayProcess> {
  const gateway = await GatewayProcess.start({
    REDIS_URL: redis.url,
    USAGE_WORKERS: '0',
    ...environment,
  });
  opened.defer(() => gateway.dispose());
  return gateway;
}

beforeAll(async () => {
  certificates = await makeCertificates('IP:127.0.0.1');
  opened.defer(() => certificates.close());
  redis = await TestRedis.start();
  opened.defer(() => redis.kill());
});
afterAll(() => opened.disposeAsync());

test('two nodes behind HAProxy, which ends TLS; a media worker that is killed is noticed within a round, and heard is again after', async () => {
  const [clients = 0, operators = 0, first = 0, second = 0] = await freePorts(4);
  const trust = { TRUST_PROXY: '127.0.0.1' };
  const gateways = [
    await startGateway({ ...trust, PORT: String(first) }),
    await startGateway({ ...trust, PORT: String(second), DEMO_ACCOUNT: 'false' }),
  ];
  ({ api_key: apiKey } = await gateways[0]!.ready());
  await gateways[1]!.ready();
  const ports = { clients, operators, gateways: [first, second] as [number, number] };
  const proxy = await TestHaproxy.start(certificates, ports);
  opened.defer(() => proxy.close());
  const url = `https://127.0.0.1:${clients}`;
  const target = { url, apiKey, caFile: certificates.caFile };
  const output = await whenAllHeard(target);
  expect(output).toMatch(/WebSocket +joined in .* over wss/);
  expect(output).toMatch(/WebRTC +joined in .* over udp /);

  const canary = startCanary(target, '--every', '8');
  const rounds = () => roundsIn(canary.output);
  await expect.poll(() => rounds().at(-1), PATIENCE).toBe(true);
  const before = rounds().length;
  // While WebRTC peers are in their room: their media is on a node, or on both.
  const hasBrowsers = async (port: number) =>
    /^partyline_webrtc_peers [1-9]/m.test(
      await (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
    );
  let busy = -1;
  await eventually(
    'WebRTC peers are in',
    async () => (busy = (await Promise.all([first, second].map(hasBrowsers))).indexOf(true)) >= 0,
    30_000,
  );
  process.kill(await gateways[busy]!.descendantPid('mediasoup-worke'), 'SIGKILL');
  await expect.poll(() => rounds().slice(before), PATIENCE).toContain(false);
  const noticed = before + rounds().slice(before).indexOf(false);
  expect(noticed - before).toBeLessThanOrEqual(1);
  await expect.poll(() => rounds().slice(noticed), PATIENCE).toContain(true);
  expect(rounds().slice(noticed).indexOf(true)).toBeLessThanOrEqual(ROUNDS_TO_RECOVER);
  const exited = once(canary.child, 'exit');
  canary.child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
});

test('a node of two processes that serves TLS itself', async () => {
  const { certFile: TLS_CERT, keyFile: TLS_KEY } = certificates;
  const gateway = await startGateway({ TLS_CERT, TLS_KEY, PROCESSES: '2', DEMO_ACCOUNT: 'false' });
  const { url } = await gateway.ready();
  const output = await whenAllHeard({ url, apiKey, caFile: certificates.caFile });
  expect(output).toMatch(/WebSocket +joined in .* over wss/);
});
