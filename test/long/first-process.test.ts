import { readFile } from 'node:fs/promises';
import { spawnSync } from 'node:child_process';
import { afterEach, expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, untilEnded } from '../support/process.ts';
import { startArguments } from '../support/start-arguments.ts';

/** The command that follows is process 1 of a PID namespace, as in a container without an init. */
const AS_FIRST = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];
const isPossible = spawnSync(AS_FIRST[0]!, [...AS_FIRST.slice(1), 'true']).status === 0;

let started: GatewayProcess | undefined;
afterEach(async () => {
  await started?.dispose();
  started = undefined;
});

test.skipIf(!isPossible).each([
  ['1', 'SIGTERM'],
  ['2', 'SIGTERM'],
  ['2', 'SIGINT'],
] as const)(
  'a gateway that is the first process of a container (PROCESSES=%s): %s drains it, and nothing is left',
  async (PROCESSES, signal) => {
    const environment = { PROCESSES, DRAIN_MS: '600000', USAGE_WORKERS: '1' };
    const command = [...AS_FIRST, process.execPath, ...startArguments()];
    started = await GatewayProcess.startWith(command, environment);
    const { url, api_key: apiKey } = await started.ready();
    const client = await TestClient.connect(url, { room: 'a', peer: 'p', api_key: apiKey });
    await client.next('joined');
    const gateway = started;
    await eventually('its usage worker runs', () =>
      gateway.output.includes('usage worker started'),
    );
    const below = await started.descendantPids();
    const [first = 0] = below;
    expect(await readFile(`/proc/${first}/status`, 'utf8')).toMatch(/^NSpid:\s\d+\s1$/m);
    // Redis, a usage worker, and for each gateway process a media worker.
    expect(below.length).toBe(PROCESSES === '1' ? 4 : 7);
    process.kill(first, signal);
    await client.next('draining');
    expect((await started.descendantPids()).length).toBeGreaterThan(3);
    await client.close();
    expect(await started.exitCode()).toBe(0);
    await untilEnded(below);
    expect(started.logged('drain ended')).toContainEqual(expect.objectContaining({ peers: 0 }));
  },
);
