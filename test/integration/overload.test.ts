import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openGateway, connect, enter } = useStack();

/** Share of one core; an idle gateway takes a small part of it. */
const MARK_PERCENT = 25;
const [BURN_MS, BURN_EVERY_MS] = [12, 20];
/** Five samples in a row must agree, of a machine that may be busy with other things. */
const CHANGE_TIMEOUT_MS = 25_000;

let burning: NodeJS.Timeout | undefined;
afterEach(() => clearInterval(burning));

/** Takes CPU from the thread of the gateway, a little at a time. */
function startToBurn(): void {
  burning = setInterval(() => {
    const before = process.threadCpuUsage();
    while (process.threadCpuUsage(before).user < BURN_MS * 1000);
  }, BURN_EVERY_MS);
}

/** To ask is work too, and would itself keep the node busy if it were done all the time. */
const ASK_EVERY_MS = 250;

async function readinessOf(url: string) {
  await delay(ASK_EVERY_MS);
  const response = await fetch(`${url}/readyz`);
  return { status: response.status, body: await response.json() };
}

async function metricOf(url: string, name: string): Promise<number> {
  await delay(ASK_EVERY_MS);
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1]);
}

test(
  'an overloaded node takes nobody, says so, and encodes cheaply; calls go on; then all is well again',
  { timeout: 90_000 },
  async () => {
    const gateway = await openGateway(
      { OVERLOAD_CPU_PERCENT: String(MARK_PERCENT), OVERLOAD_LOOP_DELAY_MS: '0' },
      { load: { sampleEveryMs: 300 } },
    );
    const { url } = gateway;
    const statusIs = async (status: number) => (await readinessOf(url)).status === status;
    const [alice, bob] = [await enter(gateway, 'alice'), await enter(gateway, 'bob')];
    const waiting = await connect(gateway, { room: '__lobby__', peer: 'waiting' });
    await waiting.next('welcome');

    startToBurn();
    await eventually('it is overloaded', () => statusIs(503), CHANGE_TIMEOUT_MS);
    expect((await readinessOf(url)).body).toMatchObject({
      ready: false,
      checks: { redis: true, not_draining: true, not_overloaded: false },
    });
    expect(await metricOf(url, 'partyline_load_level')).toBe(2);
    await eventually(
      'encoders are cheaper',
      async () => (await metricOf(url, 'partyline_encoder_complexity')) < 5,
    );

    const refusal = { code: 'overloaded', retryable: true, retry_after_ms: 5000 };
    const late = await connect(gateway, { peer: 'late' });
    expect(await late.next('error')).toMatchObject(refusal);
    expect(await late.closed).toBe(1013);
    const answer = await waiting.ask({ type: 'join', room: 'a', id: 'j' }, 'error');
    expect(answer).toMatchObject({ ...refusal, reply_to: 'j' });

    const tone = await opusTone(1000, 0.5, 1000);
    await play(alice, tone);
    await eventually('every frame is heard', () => bob.frames.length === tone.length);
    expect(bob.frames).toEqual(tone);
    expect(await bob.ask({ type: 'join', room: 'b' }, 'joined')).toMatchObject({ room: 'b' });

    clearInterval(burning);
    await eventually('it is ready', () => statusIs(200), CHANGE_TIMEOUT_MS);
    expect(await waiting.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ room: 'a' });
    await enter(gateway, 'late');
    const isCalm = async () => (await metricOf(url, 'partyline_load_level')) === 0;
    await eventually('it is as before', isCalm, CHANGE_TIMEOUT_MS);
  },
);
