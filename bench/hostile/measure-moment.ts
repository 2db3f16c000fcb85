import { setTimeout as sleep } from 'node:timers/promises';
import { askOperator, createAccount, OPERATOR_KEY } from '../ask-operator.ts';
import { PINNING } from '../child.ts';
import { GatewayProcess } from '../gateway-process.ts';
import { met } from '../goals.ts';
import { openOwnRedis } from '../own-redis.ts';
import { CROWD } from '../scenario.ts';
import { fillMonth } from './busy-month.ts';
import { askGap, ms, openListeners, REPORT_TIMEOUT_MS, startScript } from './ears.ts';
import type { Row } from './measure-attack.ts';
import { type CrowdReport, type Moment, MOMENTS, type Places } from './moment.ts';

/** Time before the moment over which the longest gap in quiet is measured, ms. */
const QUIET_MS = 2000;
/** Time after the report of the crowd in which delayed packets still arrive, ms. */
const AFTER_MS = 500;
const DRAIN_MS = 60_000;

/**
 * Maximum of the longest gap beyond that in quiet, ms, and maximum time until all peers have been told, ms. A usage report has no limit
 * on its time.
 */
export const MOMENT_GOALS = { gapMs: 60, toldMs: 3000 };

export const MOMENTS_HEADING =
  '| large moments | longest gap | quiet | loop p99 | all told after | after connecting | |\n| --- | --- | --- | --- | --- | --- | --- |\n';

/** Measures the longest gap that two talking peers of one account hear while many peers of another do the same thing at once. */
export async function reportMoment(index: number): Promise<Row> {
  const moment = MOMENTS[index]!;
  const { gapMs, quietMs, loopMs, toldMs, offeredAfterMs } = await measure(index);
  const isTimely = isReport(moment) || toldMs <= MOMENT_GOALS.toldMs;
  const isMet = gapMs - quietMs <= MOMENT_GOALS.gapMs && isTimely;
  const offered = offeredAfterMs === undefined ? '–' : ms(offeredAfterMs);
  const cells = [moment, ms(gapMs), ms(quietMs), ms(loopMs), ms(toldMs), offered, met(isMet)];
  return { text: `| ${cells.join(' | ')} |\n`, isMet };
}

const isReport = (moment: Moment) => moment.startsWith('a usage report');
const isDrain = (moment: Moment) => moment.includes('drains');
const isDeath = (moment: Moment) => moment.includes('has died');

async function measure(index: number) {
  const moment = MOMENTS[index]!;
  await using opened = new AsyncDisposableStack();
  const REDIS_URL = await openOwnRedis(opened);
  const environment = { OPERATOR_KEY, REDIS_URL, DRAIN_MS: String(DRAIN_MS) };
  const gateway = opened.use(await GatewayProcess.start(CROWD, { probe: true, environment }));
  const other =
    isDrain(moment) || isDeath(moment) ? opened.use(await startBeside(environment)) : undefined;
  const { account, api_key: apiKey } = await createAccount(gateway.url, 'pro');
  if (isReport(moment)) await fillMonth(REDIS_URL.replace('unix://', ''), account.id);
  const listeners = opened.adopt(openListeners(gateway.url, gateway.apiKey), (child) =>
    child.stop(),
  );
  await listeners.ready();
  const places: Places = { url: gateway.url, otherUrl: other?.url ?? '', apiKey };
  const crowd = opened.adopt(
    startScript('the crowd', 'crowd', [String(index), JSON.stringify(places)]),
    (child) => child.stop(),
  );
  await crowd.ready(REPORT_TIMEOUT_MS);
  await sleep(1000);
  await askGap(listeners);
  await sleep(QUIET_MS);
  const quietMs = await askGap(listeners);
  gateway.resetProbe();
  const told = crowd.nextMessage<CrowdReport>(REPORT_TIMEOUT_MS);
  crowd.process.send('begin');
  if (isDeath(moment)) other!.killProcess();
  if (isDrain(moment))
    await askOperator(gateway.url, '/api/admin/drain', { deadline_ms: DRAIN_MS });
  const { toldMs, offeredAfterMs } = await told;
  await sleep(AFTER_MS);
  const gapMs = await askGap(listeners);
  const { loopDelayP99Ms: loopMs } = await gateway.askProbe();
  // A gateway that drains does not end before its clients have left.
  if (isDrain(moment)) gateway.killProcess();
  return { gapMs, quietMs, loopMs, toldMs, offeredAfterMs };
}

/** Starts another node of the cluster, on the core of the load. */
const startBeside = (environment: Record<string, string>) =>
  GatewayProcess.start(CROWD, {
    environment,
    ...(PINNING && { cores: String(PINNING.load) }),
  });
