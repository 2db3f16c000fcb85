import { spawnSync } from 'node:child_process';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { FORMAT } from '../../src/store/state-format.ts';
import { VERSION } from '../../src/version.ts';
import { OtherBuild } from '../support/other-build.ts';
import { GatewayProcess } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';
import { enterTwo, sendTone } from '../support/tone-through.ts';

/** This version beside, before and after the next one: with the same number of the format, and with that number raised. */

const NEXT = '0.99.0';
/** The last commit of version 0.1.0, which knows no formats. */
const LAST_OF_0_1 = 'b22304c~1';
const OPERATOR_KEY = 'operator-key-of-the-tests';

let compatible: OtherBuild;
let raised: OtherBuild;
let redis: TestRedis;
const started: GatewayProcess[] = [];
beforeAll(async () => {
  compatible = await OtherBuild.make({ version: NEXT, format: FORMAT });
  raised = await OtherBuild.make({ version: NEXT, format: FORMAT + 1 });
  redis = await TestRedis.start();
});
afterEach(async () => {
  for (const gateway of started.splice(0)) await gateway.dispose();
  await redis.restart();
});
afterAll(async () => {
  await redis.kill();
  await Promise.all([compatible.remove(), raised.remove()]);
});

const environment = () => ({ REDIS_URL: redis.url, USAGE_WORKERS: '0', OPERATOR_KEY });

async function start(build?: OtherBuild, more: Record<string, string> = {}) {
  const settings = { ...environment(), ...more };
  const gateway = build
    ? await GatewayProcess.startWith(build.gatewayCommand, settings)
    : await GatewayProcess.start(settings);
  started.push(gateway);
  return gateway;
}

async function stop(gateway: GatewayProcess): Promise<void> {
  gateway.child.kill('SIGTERM');
  expect(await gateway.exited).toBe(0);
}

const versionOf = async (url: string) =>
  ((await (await fetch(`${url}/healthz`)).json()) as { version: string }).version;

describe('the next version, with the same format', () => {
  test('shares a room with this one, both ways', async () => {
    const [here, there] = [await start(), await start(compatible)];
    const { url, api_key: apiKey } = await here.ready();
    const { url: otherUrl } = await there.ready();
    expect([await versionOf(url), await versionOf(otherUrl)]).toEqual([VERSION, NEXT]);
    for (const urls of [
      [url, otherUrl],
      [otherUrl, url],
    ] as const) {
      const pair = await enterTwo([...urls], apiKey, `from ${urls[0]}`);
      const { sentHz, heardHz } = await sendTone(pair);
      expect(heardHz).toBe(sentHz);
      await Promise.all([pair.speaker.close(), pair.listener.close()]);
    }
  });
});

describe('the next version, with its format raised', () => {
  const words = (running: string, refused: string) =>
    `runs Partyline ${running}, beside which version ${refused} cannot run: stop all nodes of one version`;

  test.each([
    ['the newer', VERSION, NEXT, () => start(), () => start(raised)],
    ['the older', NEXT, VERSION, () => start(raised), () => start()],
  ] as const)(
    '%s is refused in words, and the one that runs goes on',
    async (_, running, refused, open, openOther) => {
      const first = await open();
      const { url, api_key: apiKey } = await first.ready();
      const pair = await enterTwo([url, url], apiKey);
      const second = await openOther();
      expect(await second.exited).toBe(1);
      expect(second.output).toContain(words(running, refused));
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
      const { sentHz, heardHz } = await sendTone(pair);
      expect(heardHz).toBe(sentHz);
    },
  );

  test('so are its usage worker and its accounts command', async () => {
    await (await start()).ready();
    const env = { ...process.env, REDIS_URL: redis.url };
    for (const command of [['workers/usage.ts'], ['src/accounts-cli.ts', 'list']]) {
      const [program = '', ...more] = command;
      const { status, stderr } = spawnSync(process.execPath, [raised.program(program), ...more], {
        env,
        timeout: 20_000,
      });
      expect(status).toBe(1);
      expect(stderr.toString()).toContain(words(VERSION, NEXT));
    }
  });

  test('after a stop it takes over what is there, and going back one version works', async () => {
    const headers = {
      authorization: `Bearer ${OPERATOR_KEY}`,
      'content-type': 'application/json',
    };
    const create = async (gateway: GatewayProcess, name: string) => {
      const { url } = await gateway.ready();
      const body = JSON.stringify({ name, email: 'a@example.com', plan: 'pro' });
      const answer = await fetch(`${url}/api/admin/accounts`, { method: 'POST', headers, body });
      expect(answer.status).toBe(201);
    };
    const list = async (gateway: GatewayProcess) => {
      const { url } = await gateway.ready();
      const answer = (await (await fetch(`${url}/api/admin/accounts`, { headers })).json()) as {
        accounts: { name: string }[];
      };
      return answer.accounts.map(({ name }) => name);
    };
    const before = await start();
    await create(before, 'made before');
    await stop(before);
    const next = await start(raised);
    expect(await list(next)).toContain('made before');
    await create(next, 'made by the next');
    await stop(next);
    const back = await start();
    expect(await list(back)).toEqual(expect.arrayContaining(['made before', 'made by the next']));
    const { url, api_key: apiKey } = await back.ready();
    const { sentHz, heardHz } = await sendTone(await enterTwo([url, url], apiKey));
    expect(heardHz).toBe(sentHz);
  });
});

describe.skipIf(!OtherBuild.isKnown(LAST_OF_0_1))('version 0.1.0', () => {
  let old: OtherBuild;
  beforeAll(async () => {
    old = await OtherBuild.ofCommit(LAST_OF_0_1);
  });
  afterAll(() => old.remove());
  // The key is that which Redis has, or one of the operator.
  const keys = [{}, { CLUSTER_KEY: 'a key of the operator' }];

  test.each(keys)('that starts beside this one ends, with %o', async (key) => {
    const here = await start(undefined, key);
    const { url, api_key: apiKey } = await here.ready();
    const there = await start(old, key);
    expect(await there.exited).toBe(1);
    expect(there.output).toContain('CLUSTER_KEY is not that of the nodes that run');
    const { sentHz, heardHz } = await sendTone(await enterTwo([url, url], apiKey));
    expect(heardHz).toBe(sentHz);
  });

  test.each(keys)('that runs is left alone by this one, which ends, with %o', async (key) => {
    const there = await start(old, key);
    const { url, api_key: apiKey } = await there.ready();
    const here = await start(undefined, key);
    expect(await here.exited).toBe(1);
    expect(here.output).toContain(`runs Partyline 0.1, beside which version ${VERSION} cannot run`);
    const { sentHz, heardHz } = await sendTone(await enterTwo([url, url], apiKey));
    expect(heardHz).toBe(sentHz);
  });

  test('is followed by this one after a stop, with its accounts', async () => {
    const before = await start(old);
    const { api_key: apiKey } = await before.ready();
    await stop(before);
    const { url } = await (await start()).ready();
    const headers = { authorization: `Bearer ${apiKey}` };
    expect((await fetch(`${url}/api/me`, { headers })).status).toBe(200);
  });
});
