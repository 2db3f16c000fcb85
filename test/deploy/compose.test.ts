import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { whenAllHeard } from '../support/canary.ts';
import { makeCertificates, type TestCertificates } from '../support/certificates.ts';
import { COMPOSE_ADDRESS, ComposeProject } from '../support/compose.ts';
import { Image } from '../support/image.ts';
import { commandsOf, fencedCommands } from '../support/page-commands.ts';

/**
 * The pages' commands for docker/compose.yaml, run by Debian's docker-compose 1.29 and podman 4.3: all but Grafana. The images are this
 * project's, and Debian trixie's servers in place of the official ones, HAProxy 3.0 among them.
 */

const BUILD_TIMEOUT_MS = 1_200_000;
const UP_TIMEOUT_MS = 240_000;
const SERVICES = ['gateway-1', 'gateway-2', 'worker', 'redis', 'proxy', 'prometheus'];
const SOON = { timeout: 60_000, interval: 500 };

const opened = new AsyncDisposableStack();
let image: Image;
let certificates: TestCertificates;
let project: ComposeProject;
let apiKey: string;
const url = `https://${COMPOSE_ADDRESS}`;

beforeAll(async () => {
  image = await Image.build();
  opened.defer(() => image.remove());
  certificates = await makeCertificates(`IP:${COMPOSE_ADDRESS}`);
  opened.defer(() => certificates.close());
  await addOtherImages();
  project = await ComposeProject.open(image, certificates);
  opened.defer(() => project.close());
}, BUILD_TIMEOUT_MS);
afterAll(() => opened.disposeAsync(), 120_000);

/**
 * Builds images that services get later: the canary, which trusts the certificate, and another version of the gateway. Redis did
 * not answer for seconds when they were built beside the services.
 */
async function addOtherImages(): Promise<void> {
  image.add('packages/canary/Dockerfile', 'partyline-canary');
  const authority = readFileSync(certificates.caFile).toString('base64');
  const file = '/home/node/ca.pem';
  const lines = [`RUN echo ${authority} | base64 -d > ${file}`, `ENV NODE_EXTRA_CA_CERTS=${file}`];
  await image.addLines('partyline_canary', lines, 'partyline-canary');
  await image.addLines('partyline-next', ['LABEL version=next'], 'localhost/partyline');
  execFileSync('sync');
}

const curl = (...words: string[]) =>
  project.inside('curl', '--silent', '--cacert', certificates.caFile, '--max-time', '5', ...words);
const statusOf = (address: string) => curl('-o', '/dev/null', '-w', '%{http_code}', address);

/** The one command of a page that has some words. */
function printed(page: string, words: string): string {
  const [command, ...others] = commandsOf(page).filter((each) => each.includes(words));
  if (command === undefined || others.length > 0) throw new Error(`${page}: not one "${words}"`);
  return command;
}

test(
  'all services come up, in the order of their health checks',
  async () => {
    const up = printed('install.md', 'compose.yaml up');
    // Buildah has built the image.
    await project.runCommand(`${up.replace('--build', '--no-build')} ${SERVICES.join(' ')}`);
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
  const create = printed('accounts.md', 'exec gateway-1');
  // There is no terminal here, which docker-compose 1 does not notice.
  const created = await project.runCommand(create.replace('exec', 'exec -T'));
  [apiKey = ''] = /pl_[\w-]+/.exec(created) ?? [];
  const output = await whenAllHeard({ url, apiKey, caFile: certificates.caFile });
  expect(output).toMatch(new RegExp(`WebRTC +joined in .* over udp ${COMPOSE_ADDRESS}:3000\\d`));
});

/** Runs a query of Prometheus. @returns its answer */
function query(expression: string) {
  const words = ['promtool', 'query', 'instant', 'http://127.0.0.1:9090', expression];
  return project.compose('exec', '-T', 'prometheus', ...words);
}

test('Prometheus scrapes both gateways and the usage worker', async () => {
  const up = () => query('count by (job) (up == 1)');
  await expect.poll(up, SOON).toMatch(/job="partyline"\} => 2 /);
  expect(await up()).toMatch(/job="partyline-worker"\} => 1 /);
});

test(
  'the service of the canary measures, and Prometheus scrapes it',
  async () => {
    await project.addSettings([
      ['CANARY_URL', url],
      ['CANARY_KEY', apiKey],
    ]);
    const before = await containerIds();
    await project.runCommand(printed('watch.md', '--profile canary'));
    const rounds = () => query('partyline_canary_rounds_total > 0');
    await expect.poll(rounds, SOON).toContain('job="canary"');
    expect(await containerIds()).toEqual(before);
    await project.compose('--profile', 'canary', 'rm', '--stop', '--force', 'canary');
  },
  BUILD_TIMEOUT_MS,
);

const containerIds = () => Promise.all(SERVICES.map((name) => project.inspect(name, '{{.Id}}')));

test(
  'the commands of back-up.md save the Redis in its volume, and restore it',
  async () => {
    const runOfPage = async (section: string) => {
      const isOfCompose = (command: string) => command.includes('docker compose');
      for (const command of fencedCommands('back-up.md', section).filter(isOfCompose)) {
        // The page restores a backup of another date.
        const sameDate = command.replace('$(date -u +%F)', '2026-11-23');
        await project.runCommand(sameDate.replace('/var/backups', '"$PWD/backups"'));
      }
    };
    const words = ['exec', '-T', 'gateway-1', 'node', 'src/accounts-cli.ts'];
    const list = () => project.compose(...words, 'list').catch(String);
    const before = await list();
    expect(before).toContain("Ada's taxis");
    await runOfPage('Back up');
    await project.compose(...words, ...'create --name lost --email a@example.com'.split(' '));
    expect(await list()).toContain('lost');
    await runOfPage('Restore');
    await expect.poll(list, SOON).toBe(before);
  },
  UP_TIMEOUT_MS,
);

test(
  'an upgrade of one gateway drains it, and starts its new image; clients go on at the other, which stays as it was',
  async () => {
    const before = await containerIds();
    await project.compose('exec', '-T', 'gateway-1', 'touch', '/data/kept');
    const oldImage = await project.inspect('gateway-1', '{{.Image}}');
    // In place of a build.
    image.buildah('tag', 'localhost/partyline-next', 'localhost/partyline');
    await project.runCommand(printed('upgrade.md', 'stop gateway-1'));
    expect(await project.inspect('gateway-1', '{{.State.ExitCode}}')).toBe('0');
    expect(await project.podman('logs', 'partyline_gateway-1_1')).toContain('"msg":"drain ended"');
    expect(await statusOf(`${url}/readyz`)).toBe('200');
    await project.runCommand(printed('upgrade.md', '--no-deps gateway-1'));
    await project.runCommand(printed('upgrade.md', 'until '));
    expect(await project.inspect('gateway-1', '{{.Image}}')).not.toBe(oldImage);
    await project.compose('exec', '-T', 'gateway-1', 'test', '-e', '/data/kept');
    await project.compose('exec', '-T', 'gateway-2', 'test', '!', '-e', '/data/kept');
    await project.runCommand(printed('upgrade.md', '--no-deps worker'));
    const after = await containerIds();
    const isSame = SERVICES.map((_, index) => after[index] === before[index]);
    expect(isSame).toEqual(SERVICES.map((name) => !['gateway-1', 'worker'].includes(name)));
  },
  UP_TIMEOUT_MS,
);

test(
  'docker run: a single node with a usage worker beside another Redis, and a volume that it may write',
  async () => {
    const redis = [
      '--network',
      'partyline_default',
      '--name',
      'other',
      'docker.io/library/redis:8.0',
    ];
    await project.podman('run', '--detach', ...redis, 'redis-server');
    const address = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}';
    const redisIp = await project.podman('inspect', '--format', address, 'other');
    const command = printed('install.md', 'docker run --detach')
      .replace('203.0.113.7', COMPOSE_ADDRESS)
      .replace('10.0.0.5', redisIp)
      // The gateways of compose have the usual ports.
      .replace('--init', '--init --name single -e RTC_PORT=31000');
    await project.runCommand(command);
    const ready = () => statusOf(`http://${COMPOSE_ADDRESS}:3000/readyz`);
    await expect.poll(ready, SOON).toBe('200');
    const logs = () => project.podman('logs', 'single');
    await expect.poll(logs, SOON).toContain('usage worker started');
    await project.podman('exec', 'single', 'touch', '/data/a');
    await project.podman('stop', '--time', '60', 'single');
    expect(await project.podman('inspect', '--format', '{{.State.ExitCode}}', 'single')).toBe('0');
  },
  UP_TIMEOUT_MS,
);
