import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  ALERT_CASES,
  annotationsOf,
  labelled,
  NODE,
  promtoolCase,
  STEP_S,
} from '../support/alert-cases.ts';
import { readIntervals, readRules, type Rule } from '../support/prometheus.ts';

/** The shipped files, checked by Prometheus's own tool: `promtool check` and `promtool test rules`. */

const DOCKER = join(import.meta.dirname, '../../docker');
const CALM_STEPS = 80;
const STEPS_AFTER = 200;

/** A value that stands; or a start, and what is added at each step; or a series that has ended. */
type Values = number | [from: number, by: number] | 'gone';

type Scenario = {
  /** Series with its values in calm times and then in trouble. */
  series: [name: string, calm: Values, trouble: Values][];
  /** Labels of the alert, beyond its name. */
  labels: Record<string, string>;
  /** Longest time after the onset at which a rate has risen far enough, s. */
  risesWithinS?: number;
};

const on = (name: string, calm: number, trouble: number, labels: Record<string, string> = {}) => ({
  series: [[labelled(name, { ...NODE, ...labels }), calm, trouble]] satisfies Scenario['series'],
  labels: { ...NODE, ...labels },
});
/** A counter that has risen once. */
const rose = (name: string, by: number, labels?: Record<string, string>) => on(name, 0, by, labels);
const growing = (name: string, perStep: number, labels: Record<string, string> = {}) =>
  [labelled(name, { ...NODE, ...labels }), 0, [perStep, perStep]] satisfies Scenario['series'][0];

/** A histogram whose values, once there are any, are between two buckets. */
const slow = (name: string, labels: Record<string, string>, buckets: [number, number]) => ({
  series: [
    [labelled(name, { ...labels, le: `${buckets[0]}` }), 0, 0],
    [labelled(name, { ...labels, le: `${buckets[1]}` }), 0, [1, 1]],
    [labelled(name, { ...labels, le: '+Inf' }), 0, [1, 1]],
  ] satisfies Scenario['series'],
  labels,
});
const WAY = { ...NODE, from: 'websocket', to: 'webrtc' };

const SCENARIOS: Record<string, Scenario> = {
  GatewayIsDown: on('up', 1, 0, { job: 'partyline' }),
  NoGateway: {
    // As in Kubernetes, where nothing scrapes a pod that does not exist.
    series: [[labelled('up', { ...NODE, job: 'partyline' }), 1, 'gone']],
    labels: {},
  },
  UsageWorkerIsDown: on('up', 1, 0, { job: 'partyline-worker' }),
  ProcessHangs: on('partyline_hung_processes', 0, 1),
  GatewayProcessesDie: rose('partyline_gateway_deaths_total', 1),
  ProcessKeepsRestarting: {
    series: [[labelled('partyline_process_start_time_seconds', NODE), 1000, [2000, STEP_S]]],
    labels: NODE,
    risesWithinS: 2 * STEP_S,
  },
  NodeIsUnready: on('partyline_ready', 1, 0),
  EventLoopIsLate: on('partyline_event_loop_delay_seconds', 0.01, 0.06, { quantile: '0.99' }),
  NodeIsOverloaded: on('partyline_load_level', 0, 2),
  DescriptorsRunShort: {
    series: [
      [labelled('partyline_process_open_fds', NODE), 10, 90],
      [labelled('partyline_process_max_fds', NODE), 100, 100],
    ],
    labels: NODE,
  },
  NodeRunsShort: on('partyline_short', 0, 1, { resource: 'disk' }),
  LogLinesAreLost: rose('partyline_log_lines_lost_total', 1),
  NodeIsStrained: on('partyline_load_level', 0, 1),
  SoundIsDropped: {
    series: [
      [labelled('partyline_frames_total', { ...NODE, direction: 'in' }), 0, [750, 750]],
      [labelled('partyline_router_packets_total', { ...NODE, direction: 'in' }), 0, 0],
      growing('partyline_dropped_packets_total', 15, { reason: 'late' }),
    ],
    labels: NODE,
    risesWithinS: 300,
  },
  MediaWorkersDie: rose('partyline_media_worker_restarts_total', 1),
  MediaWorkersAreMissing: on('partyline_media_workers_missing', 0, 1),
  RedisIsAway: on('partyline_redis_up', 1, 0),
  RedisClockJumped: rose('partyline_redis_clock_jumps_total', 1),
  ClockIsOff: on('partyline_clock_offset_seconds', 0.1, -6),
  NoUsageWorker: on('partyline_usage_workers', 1, 0),
  MinutesAreNotClosed: on('partyline_oldest_open_minute_age_seconds', 20, 301),
  UsageQueueGrows: {
    series: [[labelled('partyline_usage_jobs_waiting', NODE), 0, [101, 1]]],
    labels: NODE,
  },
  WebhooksWait: on('partyline_webhook_oldest_event_age_seconds', 5, 901),
  WebhookEventsAreGivenUp: rose('partyline_webhook_events_dropped', 3),
  ClusterMessagesAreRefused: rose('partyline_seal_faults_total', 1),
  PipesFail: rose('partyline_pipe_faults_total', 4),
  NodesAreSilent: on('partyline_silent_nodes', 0, 1),
  NodesAreUnreachable: on('partyline_unreachable_nodes', 0, 1),
  RelaysFail: rose('partyline_relay_faults_total', 6),
  ClientsAreRefused: {
    series: [growing('partyline_refusals_total', 3, { reason: 'overloaded' })],
    labels: { reason: 'overloaded' },
    risesWithinS: 300,
  },
  CanaryIsSilent: {
    // One that makes a round a minute.
    series: [[labelled('partyline_canary_silent_total', WAY), 0, [1, STEP_S / 60]]],
    labels: WAY,
    risesWithinS: 120,
  },
  CanaryHearsLate: slow('partyline_canary_mouth_to_ear_seconds_bucket', WAY, [0.2, 0.4]),
  CanaryJoinsSlowly: slow(
    'partyline_canary_join_seconds_bucket',
    { ...NODE, kind: 'webrtc' },
    [3, 5],
  ),
  CanaryIsGone: {
    // It finishes no round; the rest is in ALERT_CASES.
    series: [
      [labelled('partyline_canary_rounds_total', { ...NODE, result: 'heard' }), [0, 1], CALM_STEPS],
    ],
    labels: NODE,
    risesWithinS: 180,
  },
  CanaryLosesSound: {
    series: [[labelled('partyline_canary_lost_ratio', WAY), 0.06, 0.45]],
    labels: WAY,
  },
  CanaryHearsWrongLevel: {
    series: [[labelled('partyline_canary_level_db', WAY), -1, -20]],
    labels: WAY,
  },
};

const values = (calm: Values, trouble: Values) => {
  const text = (of: Values, steps: number) => {
    if (of === 'gone') return 'stale';
    const [from, by] = typeof of === 'number' ? [of, 0] : of;
    return `${from}+${by}x${steps}`;
  };
  return `${text(calm, CALM_STEPS)} ${text(trouble, STEPS_AFTER)}`;
};

/** `90s`, `2m`, `1h` in seconds. */
function seconds(text = '0s'): number {
  const [, count, unit] = /^(\d+)([smh])$/.exec(text)!;
  return Number(count) * { s: 1, m: 60, h: 3600 }[unit as 's' | 'm' | 'h'];
}

/** A rule's scenario, as `promtool test rules` reads it: calm, not yet long enough, long enough. */
function promtoolTest(rule: Rule, { series, labels, risesWithinS = 0 }: Scenario) {
  const onsetS = (CALM_STEPS + 1) * STEP_S;
  const forS = seconds(rule.for);
  const fired = [{ exp_labels: labels, exp_annotations: annotationsOf(rule, labels) }];
  const at = (timeS: number, isFiring: boolean) => ({
    eval_time: `${timeS}s`,
    alertname: rule.alert,
    exp_alerts: isFiring ? fired : [],
  });
  return {
    name: rule.alert,
    interval: `${STEP_S}s`,
    input_series: series.map(([name, ...trouble]) => ({
      series: name,
      values: values(...trouble),
    })),
    alert_rule_test: [
      at(onsetS - STEP_S, false),
      ...(forS > 0 ? [at(onsetS + forS - STEP_S, false)] : []),
      at(onsetS + forS + risesWithinS + STEP_S, true),
    ],
  };
}

describe('promtool', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'partyline-promtool-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  test('takes docker/prometheus.yml, and the rules that it names', () => {
    const output = execFileSync('promtool', ['check', 'config', join(DOCKER, 'prometheus.yml')]);
    expect(output.toString()).toContain('SUCCESS: 1 rule files found');
  });

  test('every alert fires when it should, after its time, and not before', async () => {
    const rules = await readRules();
    expect(await readIntervals()).toEqual([`${STEP_S}s`]);
    expect(Object.keys(SCENARIOS).toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted());
    const file = join(folder, 'alerts.test.yml');
    const tests = rules.flatMap((rule) => [
      promtoolTest(rule, SCENARIOS[rule.alert]!),
      ...ALERT_CASES.filter(({ alert }) => alert === rule.alert).map((each) =>
        promtoolCase(rule, each),
      ),
    ]);
    const suite = {
      rule_files: [join(DOCKER, 'alerts.yml')],
      evaluation_interval: `${STEP_S}s`,
      tests,
    };
    await writeFile(file, JSON.stringify(suite));
    const output = execFileSync('promtool', ['test', 'rules', file], { encoding: 'utf8' });
    expect(output).toContain('SUCCESS');
  });
});
