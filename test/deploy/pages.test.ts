import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readSettings } from '../../config/settings.ts';
import { redisAddressOf } from '../../src/store/open-redis.ts';
import { commandsOf, fencedCommands, requestsOf, settingsOf } from '../support/page-commands.ts';
import { useStack } from '../support/use-stack.ts';

/** The pages of docs/operations: each command is run by a test, or is named here with the reason why it is not. */

const { openGateway, enter } = useStack();

const PROJECT = join(import.meta.dirname, '../..');
const PAGES = readdirSync(join(PROJECT, 'docs/operations'));
const OPERATOR_KEY = 'operator-key-of-the-tests';

/** Commands by how they begin, with the tests that run them. */
const TRIED: [RegExp, string][] = [
  [/^npm run (--silent )?accounts -- /, 'deploy/accounts-page.test.ts'],
  [/^npm start -- --lan$/, 'long/lan.test.ts'],
  [/^npm run worker$/, 'long/signals.test.ts'],
  [/^npm run canary -- /, 'deploy/canary.test.ts'],
  [/^scripts\/backup\.sh (save|restore) /, 'deploy/backup.test.ts'],
  [/^install -d -o redis /, 'deploy/backup.test.ts'],
  [
    /^(\[ -e \S+ \] \|\| )?(install (?!-d -o redis)|systemd-sysusers|runuser)/,
    'deploy/systemd.test.ts',
  ],
  [/^systemctl (daemon-reload|enable|stop|start|restart|kill)/, 'deploy/systemd.test.ts'],
  [/^(mv|cd|rm -rf) \/opt\/partyline/, 'deploy/systemd.test.ts'],
  [/^umask 022$/, 'deploy/systemd.test.ts'],
  [/^until curl .*\/readyz; do sleep 2; done$/, 'deploy/systemd.test.ts'],
  [/^kubectl --namespace partyline exec /, 'deploy/image.test.ts'],
  [/^kubectl (kustomize|--namespace partyline create secret)\b/, 'deploy/kubernetes.test.ts'],
  [
    /^(\(umask 077 && )?docker compose -f docker\/compose\.yaml (--profile canary )?(up|stop|start|exec|run) /,
    'deploy/compose.test.ts',
  ],
  [/^until docker compose /, 'deploy/compose.test.ts'],
  [/^docker run (--detach )?--init\b/, 'deploy/compose.test.ts'],
  [/^iptables /, 'deploy/pages.test.ts'],
  [/^(REDIS_URL|SENTINEL_PASSWORD)=/, 'deploy/pages.test.ts'],
];

/** Commands that no test runs. */
const NOT_RUN: [RegExp, string][] = [
  [/^npm run test:deploy$/, 'it is what runs this'],
  [/^node scripts\/set-up\.mjs$/, 'npm runs it before the tests'],
  [/^kubectl apply /, 'there is no cluster here; the same manifests are built and validated'],
  [/^systemctl edit /, 'it opens an editor'],
  [/^docker (compose -f docker\/compose\.yaml )?build /, 'there is no docker here; buildah builds'],
  [/^docker compose .* restart --timeout /, 'compose.test.ts stops and starts services'],
  [/^docker compose .* logs /, 'it only shows a log'],
  [/^docker compose .* kill -s HUP proxy$/, 'it sends a signal of HAProxy'],
  [/^docker compose -f docker\/compose\.yaml …$/, 'it stands for the others'],
];

describe.each(PAGES)('%s', (page) => {
  test.each([...commandsOf(page), ''])('%s', (command) => {
    if (command === '') return;
    const tests = TRIED.filter(([start]) => start.test(command)).map(([, file]) => file);
    const reasons = NOT_RUN.filter(([start]) => start.test(command));
    expect(tests.length + reasons.length).toBe(1);
    for (const file of tests) expect(existsSync(join(PROJECT, 'test', file))).toBe(true);
  });
});

test('install.md and watch.md name the settings of docker/compose.yaml, which are in a file that git ignores', () => {
  const file = readFileSync(join(PROJECT, 'docker/compose.yaml'), 'utf8');
  const variables = new Set([...file.matchAll(/\$\{(\w+)/g)].map(([, name]) => name!));
  const ofCanary = [...variables].filter((name) => name.startsWith('CANARY_'));
  const watching = readFileSync(join(PROJECT, 'docs/operations/watch.md'), 'utf8');
  expect(ofCanary.filter((name) => !watching.includes(`\`${name}=`))).toEqual([]);
  // Browsers need TURN in few networks.
  const ofTurn = [...variables].filter((name) => name.startsWith('TURN_'));
  const installing = readFileSync(join(PROJECT, 'docs/operations/install.md'), 'utf8');
  expect(ofTurn.filter((name) => !installing.includes(`\`${name}\``))).toEqual([]);
  const named = [...settingsOf('install.md').keys(), ...ofCanary, ...ofTurn];
  expect(named.toSorted()).toEqual([...variables].toSorted());
  for (const ignored of ['.gitignore', '.dockerignore']) {
    expect(readFileSync(join(PROJECT, ignored), 'utf8')).toMatch(/^docker\/\.env$/m);
  }
});

describe('grow.md', () => {
  test('the settings for a Redis that fails over name three sentinels, the server, and both passwords', () => {
    const environment = fencedCommands('grow.md').map(
      (line) => line.split('=') as [string, string],
    );
    expect(redisAddressOf(readSettings(Object.fromEntries(environment)))).toMatchObject({
      watched: { name: 'partyline', password: 'password', sentinels: { length: 3 } },
      sentinelPassword: '…',
    });
  });
});

test("install.md: the kernel takes the rule that bounds an address's connections", () => {
  const [rule = ''] = commandsOf('install.md').filter((command) => command.startsWith('iptables'));
  // In a network of its own.
  const words = ['--net', 'sh', '-euc', `${rule}; iptables -S`];
  expect(execFileSync('unshare', words, { encoding: 'utf8' })).toContain('connlimit-above 32');
});

test('requests that the pages name are answered', async () => {
  const gateway = await openGateway({ OPERATOR_KEY });
  const peer = await enter(gateway, 'Ada', { room: 'kitchen' });
  await enter(gateway, 'who stays', { room: 'kitchen' });
  const ask = async (method: string, path: string, key = OPERATOR_KEY) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const content = path.endsWith('/mute') ? { muted: true } : {};
    const body = method === 'POST' ? { body: JSON.stringify(content) } : {};
    return fetch(`${gateway.url}${path}`, { method, headers, ...body });
  };
  const self = (await (await ask('GET', '/api/admin/nodes/self')).json()) as { id: string };
  const { account } = (await (await ask('GET', '/api/me', gateway.apiKey)).json()) as {
    account: { id: number };
  };
  const requests = new Map(
    PAGES.flatMap(requestsOf).map((request) => [request.join(' '), request]),
  );
  expect(requests.size).toBeGreaterThan(8);
  // Requests that end something come last.
  const ends = ['GET', 'POST', '/kick', '/drain'];
  const order = ([method, path]: [string, string]) =>
    Math.max(
      ends.indexOf(method),
      ends.findLastIndex((end) => path.endsWith(end)),
    );
  const inOrder = [...requests.values()].toSorted((a, b) => order(a) - order(b));
  for (const [method, path] of inOrder) {
    const meant = path
      .replace('<id>', self.id)
      .replace(/(accounts|rooms)\/7\//, `$1/${account.id}/`)
      .replace('search=&limit=&after=', 'search=kit&limit=10');
    const key = path.startsWith('/api/admin/') ? OPERATOR_KEY : gateway.apiKey;
    const { ok, status } = await ask(method, meant, key);
    expect({ path, ok, status }).toMatchObject({ path, ok: true });
  }
  expect(await peer.closed).toBe(4403);
});
