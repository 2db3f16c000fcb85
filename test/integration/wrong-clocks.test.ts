import { expect, test } from 'vitest';
import { UsageStore } from '../../src/usage/usage-store.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, connect, enter, cleanUps } = useStack();

const HOUR_S = 3600;

test.each([
  ['+3d', 72 * HOUR_S],
  ['-1h', -HOUR_S],
])(
  'a gateway and its usage worker whose clocks are off by %s: minutes and tokens are right, and it is said',
  async (off, offS) => {
    const redis = await openRedis();
    const gateway = await GatewayProcess.start(
      {
        REDIS_URL: redis.url,
        USAGE_WORKERS: '1',
        // Durations are those that pass.
        FAKETIME_DONT_FAKE_MONOTONIC: '1',
        ...timingsOf({ usage: { writeEveryMs: 100, sweepEveryMs: 100 } }),
      },
      undefined,
      ['faketime', '-f', off],
    );
    cleanUps.push(() => gateway.dispose());
    const { url, api_key: apiKey, account_id: accountId } = await gateway.ready();
    const usage = new UsageStore(await openStore(redis));
    await usage.write([
      {
        writer: 'before',
        accountId,
        minute: new Date(Date.now() - 600_000).toISOString().slice(0, 16),
        room: 'a',
        websocketMs: 5,
        webrtcMs: 0,
        peakPeers: 1,
      },
    ]);
    await enter({ url, apiKey }, 'ada');
    const response = await fetch(`${url}/api/tokens`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ peer: 'bob', rooms: '*', ttl_seconds: 600, publish: true }),
    });
    const { token, expires_at: expiresAt } = (await response.json()) as Record<string, string>;
    expect(Math.abs(Date.parse(expiresAt!) - Date.now() - 600_000)).toBeLessThan(60_000);
    const bob = await connect({ url, apiKey: '' }, { peer: 'bob', api_key: '', token: token! });
    await bob.next('welcome');
    // Past minutes are closed, and new time is in this minute.
    await eventually(
      'the minute that is over is closed',
      async () => (await usage.listOpen(Date.now() - 300_000)).length === 0,
    );
    await eventually('it is counted', async () => {
      const open = await usage.listOpen(Date.now() + 120_000);
      const agesMs = open.map(({ minute }) => Date.now() - Date.parse(`${minute}Z`));
      return agesMs.length > 0 && agesMs.every((ageMs) => ageMs > -60_000 && ageMs < 180_000);
    });
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const valueOf = (name: string) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(metrics)?.[1]);
    expect(Math.abs(valueOf('partyline_clock_offset_seconds') - offS)).toBeLessThan(60);
    expect(
      Math.abs(valueOf('partyline_usage_worker_clock_offset_seconds') - Math.abs(offS)),
    ).toBeLessThan(60);
    const said = gateway.logged('machine clock wrong; redis clock used');
    expect(said.length).toBeGreaterThan(0);
  },
);
