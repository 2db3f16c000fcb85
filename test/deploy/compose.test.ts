import { afterAll, beforeAll, expect, test } from 'vitest';
import { hearsAll } from '../support/canary.ts';
import { makeCertificates, type TestCertificates } from '../support/certificates.ts';
import { COMPOSE_ADDRESS, ComposeProject } from '../support/compose.ts';
import { Image } from '../support/image.ts';

/**
 * `docker compose up` of docker/compose.yaml by Debian's docker-compose 1.29 and podman 4.3: all but Grafana. The images are this
 * project's, and Debian trixie's servers in place of the official ones, HAProxy 3.0 among them.
 */

const BUILD_TIMEOUT_MS = 1_200_000;
const UP_TIMEOUT_MS = 240_000;
const SERVICES = ['gateway-1', 'gateway-2', 'worker', 'redis', 'proxy', 'prometheus'];
const SOON = { timeout: 60_000, interval: 500 };

const opened = new AsyncDisposableStack();
let certificates: TestCertificates;
let project: ComposeProject;
const url = `https://${COMPOSE_ADDRESS}`;

beforeAll(async () => {
  const image = await Image.build();
  opened.defer(() => image.remove());
  certificates = await makeCertificates(`IP:${COMPOSE_ADDRESS}`);
  opened.defer(() => certificates.close());
  project = await ComposeProject.open(image, certificates);
  opened.defer(() => project.close());
}, BUILD_TIMEOUT_MS);
afterAll(() => opened.disposeAsync(), 120_000);

const curl = (...words: string[]) =>
  project.inside('curl', '--silent', '--cacert', certificates.caFile, '--max-time', '5', ...words);
const statusOf = (address: string) => curl('-o', '/dev/null', '-w', '%{http_code}', address);

test(
  'all services come up, in the order of their health checks',
  async () => {
    await project.compose('up', '--detach', '--no-build', ...SERVICES);
    const states = () =>
      Promise.all(SERVICES.map((name) => project.inspect(name, '{{.State.Status}}')));
    expect(await states()).toEqual(SERVICES.map(() => 'running'));
    const checked = ['gateway-1', 'gateway-2', 'worker', 'redis'];
    const health = () =>
      Promise.all(checked.map((name) => project.inspect(name, '{{.State.Health.Status}}')));
    await expect.poll(health, SOON).toEqual(checked.map(() => 'healthy'));
  },
  UP_TIMEOUT_MS,
);

test('HAProxy serves clients at port 443, and operators at 8443 of the machine alone', async () => {
  await expect.poll(() => statusOf(`${url}/readyz`), SOON).toBe('200');
  expect(await statusOf(`${url}/metrics`)).toBe('404');
  const here = ['--connect-to', `${COMPOSE_ADDRESS}:8443:127.0.0.1:8443`];
  const metrics = () => curl(...here, `${url}:8443/metrics`);
  await expect.poll(metrics, SOON).toContain('partyline_build_info');
  await expect(statusOf(`${url}:8443/healthz`)).rejects.toThrow('Command failed');
});

test('the canary hears all four ways from outside, through the published ports of WebRTC', async () => {
  const create = 'create --name Ada --email a@example.com --plan pro';
  const words = ['node', 'src/accounts-cli.ts', ...create.split(' ')];
  const created = await project.compose('exec', '-T', 'gateway-1', ...words);
  const [apiKey = ''] = /pl_[\w-]+/.exec(created) ?? [];
  const output = await hearsAll({ url, apiKey, caFile: certificates.caFile });
  expect(output).toMatch(new RegExp(`WebRTC +joined in .* over udp ${COMPOSE_ADDRESS}:3000\\d`));
});

test('Prometheus scrapes both gateways and the usage worker', async () => {
  const query = ['promtool', 'query', 'instant', 'http://127.0.0.1:9090'];
  const up = () =>
    project.compose('exec', '-T', 'prometheus', ...query, 'count by (job) (up == 1)');
  await expect.poll(up, SOON).toMatch(/job="partyline"\} => 2 /);
  expect(await up()).toMatch(/job="partyline-worker"\} => 1 /);
});

test(
  'docker compose stop drains a gateway, which ends with 0; clients go on at the other, and it comes back',
  async () => {
    await project.compose('stop', 'gateway-1');
    expect(await project.inspect('gateway-1', '{{.State.ExitCode}}')).toBe('0');
    expect(await project.podman('logs', 'partyline_gateway-1_1')).toContain('"msg":"drain ended"');
    expect(await statusOf(`${url}/readyz`)).toBe('200');
    await project.compose('start', 'gateway-1');
    const health = () => project.inspect('gateway-1', '{{.State.Health.Status}}');
    await expect.poll(health, SOON).toBe('healthy');
  },
  UP_TIMEOUT_MS,
);
