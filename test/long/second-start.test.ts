import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { GatewayProcess, untilEnded } from '../support/process.ts';
import { watchSlowness } from '../support/slowness.ts';

/** `npm start` as in README: with its set-up, and without the compile cache of the tests. */
const COMMAND = ['npm', 'start'];
const ENVIRONMENT = { NODE_DISABLE_COMPILE_CACHE: '1' };

/** Maximum duration of the second start on a machine that is not slow, ms. It took 2.5 s on two busy cores. */
const MOST_MS = 5000;

/** Starts the gateway, and ends it when it is ready. @returns the duration until then, ms */
async function start(dataDir: string): Promise<number> {
  const sinceMs = performance.now();
  const started = await GatewayProcess.startWith(COMMAND, ENVIRONMENT, dataDir);
  onTestFinished(() => started.dispose());
  await started.ready();
  const tookMs = performance.now() - sinceMs;
  const below = await started.descendantPids();
  started.child.kill('SIGTERM');
  expect(await started.exitCode()).toBe(0);
  await untilEnded(below);
  return tookMs;
}

test('the second npm start takes a few seconds', async ({ annotate }) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'partyline-starts-'));
  const slownessSince = await watchSlowness();
  const firstMs = await start(dataDir);
  const secondMs = await start(dataDir);
  const slowness = await slownessSince();
  const figures = [firstMs, secondMs].map((ms) => `${(ms / 1000).toFixed(2)} s`);
  await annotate(`${figures.join(', then ')}; slowness ${slowness.toFixed(2)}`);
  expect(secondMs).toBeLessThan(MOST_MS * slowness);
});
