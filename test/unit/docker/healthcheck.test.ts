import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Serves /healthz with a status; with none, a port at which nothing answers. */
async function portOf(status: number | undefined, address = '127.0.0.1'): Promise<string> {
  const server = createServer((_request, response) => response.writeHead(status ?? 500).end());
  server.listen(0, address);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  if (status === undefined) await new Promise((resolve) => server.close(resolve));
  else servers.push(server);
  return String(port);
}

/** @param before command that runs the health check */
const exitCode = (environment: Record<string, string>, before: string[] = []) =>
  new Promise((resolve) => {
    const { PATH } = process.env;
    const [program, ...words] = [...before, process.execPath, 'docker/healthcheck.mjs'];
    execFile(program, words, { env: { PATH, ...environment } }, (fault) =>
      resolve(fault ? fault.code : 0),
    );
  });

const IN_CONTAINER = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];
const canBeFirst = spawnSync(IN_CONTAINER[0]!, [...IN_CONTAINER.slice(1), 'true']).status === 0;

/** Runs a command in a container whose first process has this program in its command line. */
const besides = (program: string) => [...IN_CONTAINER, 'sh', '-c', '"$@"; exit $?', program];

test.each([
  ['a gateway', 200, '0', 0],
  ['a gateway that is given the port of a worker', 200, undefined, 0],
  ['a usage worker', undefined, 200, 0],
  ['a process that hangs', 503, undefined, 1],
  ['nothing', undefined, '0', 1],
])('the health check of %s', async (_name, gateway, worker, code) => {
  const PORT = await portOf(gateway);
  const WORKER_PORT = typeof worker === 'string' ? worker : await portOf(worker);
  expect(await exitCode({ PORT, WORKER_PORT })).toBe(code);
});

test.each([
  ['', '127.0.0.1'],
  ['0.0.0.0', '127.0.0.1'],
  ['::', '127.0.0.1'],
  ['127.0.0.2', '127.0.0.2'],
  ['::1', '::1'],
])('with HOST=%s it asks at %s', async (HOST, address) => {
  const PORT = await portOf(200, address);
  expect(await exitCode({ HOST, PORT, WORKER_PORT: '0' })).toBe(0);
});

test.skipIf(!canBeFirst).each([
  ['src/main.ts', 'a gateway', 200, undefined, 0],
  ['src/main.ts', 'a gateway that hangs, beside a worker', 503, 200, 1],
  ['workers/usage.ts', 'a usage worker', undefined, 200, 0],
  ['workers/usage.ts', 'a usage worker that hangs, beside a gateway', 200, 503, 1],
  ['workers/usage.ts', 'a usage worker without a port', undefined, '0', 0],
  ['workers/usage.ts', 'a usage worker whose port is not set', undefined, '', 0],
])(
  '%s is the first process: the health check of %s',
  async (program, _name, gateway, worker, code) => {
    const PORT = await portOf(gateway);
    const WORKER_PORT = typeof worker === 'string' ? worker : await portOf(worker);
    expect(await exitCode({ PORT, WORKER_PORT }, besides(program))).toBe(code);
  },
);
