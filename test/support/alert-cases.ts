import type { Rule } from './prometheus.ts';

/** The interval at which the rules are evaluated and gateways are scraped. */
export const STEP_S = 10;

export const NODE = { instance: 'gateway-1:3000' };
export const labelled = (name: string, labels: Record<string, string>) =>
  `${name}{${Object.entries(labels)
    .map(([label, value]) => `${label}="${value}"`)
    .join(',')}}`;

/** One more case of an alert: what it fires for in spite of the rest, or must not fire for. */
type Case = {
  name: string;
  alert: string;
  /** Series with its values, as promtool writes them: one for each step. */
  series: [name: string, values: string][];
  /** Time from the start, s. */
  atS: number;
  isFiring: boolean;
  labels: Record<string, string>;
};

/** SoundIsDropped, a quarter of an hour after sound and its drops began, both in units a second. */
function sound(
  name: string,
  isFiring: boolean,
  rates: {
    framesIn: number;
    routerIn: number;
    framesOut: number;
    dropped: Partial<Record<'late' | 'unread', number>>;
  },
): Case {
  const { framesIn, routerIn, framesOut, dropped } = rates;
  const counter = (metric: string, labels: Record<string, string>, perS: number) =>
    [labelled(metric, { ...NODE, ...labels }), `0+${perS * STEP_S}x100`] satisfies [string, string];
  return {
    name: `SoundIsDropped: ${name}`,
    alert: 'SoundIsDropped',
    series: [
      counter('partyline_frames_total', { direction: 'in' }, framesIn),
      counter('partyline_frames_total', { direction: 'out' }, framesOut),
      counter('partyline_router_packets_total', { direction: 'in' }, routerIn),
      ...Object.entries(dropped).map(([reason, perS]) =>
        counter('partyline_dropped_packets_total', { reason }, perS),
      ),
    ],
    atS: 900,
    isFiring,
    labels: NODE,
  };
}

/** A canary whose values are above a bucket, beside one that makes more rounds, whose values are below it. */
function lateOfTwo(
  alert: string,
  metric: string,
  labels: Record<string, string>,
  [bucket, next]: [number, number],
): Case {
  const values = (instance: string, { below, all }: { below: number; all: number }) =>
    Object.entries({ [bucket]: below, [next]: all, '+Inf': all }).map(
      ([le, perStep]) =>
        [labelled(metric, { instance, ...labels, le }), `0+${perStep}x100`] satisfies [
          string,
          string,
        ],
    );
  const instance = 'canary-2:9477';
  return {
    name: `${alert}: one canary of two`,
    alert,
    series: [
      ...values('canary-1:9477', { below: 20, all: 20 }),
      ...values(instance, { below: 0, all: 1 }),
    ],
    atS: 900,
    isFiring: true,
    labels: { instance, ...labels },
  };
}

const ONE = { job: 'canary', instance: 'canary-1:9477' };
const OTHER = { job: 'canary', instance: 'canary-2:9477' };
const [LIVES, DIES] = ['0+1x200', '0+1x30 stale'];
const [ANSWERS, ANSWERS_NO_MORE] = ['1+0x200', '1+0x30 0+0x10000'];
const DAY_S = 24 * 3600;

/** CanaryIsGone: a canary that makes a round at each scrape, or did so for five minutes. @param up its target; undefined if there is none */
const canary = (labels: Record<string, string>, life: string, up?: string): Case['series'] => [
  [labelled('partyline_canary_rounds_total', { ...labels, result: 'heard' }), life],
  [labelled('partyline_canary_last_round_timestamp_seconds', labels), life],
  ...(up === undefined ? [] : [[labelled('up', labels), up] satisfies [string, string]]),
];
const gone = (name: string, isFiring: boolean, atS: number, series: Case['series']): Case => ({
  name: `CanaryIsGone: ${name}`,
  alert: 'CanaryIsGone',
  labels: ONE,
  isFiring,
  atS,
  series,
});

const GONE_CASES = [
  gone('it has not answered for a day', true, DAY_S + 900, canary(ONE, DIES, ANSWERS_NO_MORE)),
  gone('it is no target any more', true, 900, canary(ONE, DIES)),
  gone('one of two does not answer', true, 900, [
    ...canary(ONE, DIES, ANSWERS_NO_MORE),
    ...canary(OTHER, LIVES, ANSWERS),
  ]),
  gone('a pod that was replaced', false, 900, [
    ...canary(ONE, DIES),
    ...canary(OTHER, LIVES, ANSWERS),
  ]),
  gone('it is back', false, 1000, canary(ONE, `${DIES} _x60 0+1x60`, '1+0x30 0+0x60 1+0x60')),
  gone('its clock is wrong', false, 900, canary(ONE, LIVES, ANSWERS)),
];

export const ALERT_CASES: Case[] = [
  ...GONE_CASES,
  lateOfTwo(
    'CanaryHearsLate',
    'partyline_canary_mouth_to_ear_seconds_bucket',
    { from: 'websocket', to: 'webrtc' },
    [0.15, 0.25],
  ),
  lateOfTwo(
    'CanaryJoinsSlowly',
    'partyline_canary_join_seconds_bucket',
    { kind: 'webrtc' },
    [2, 5],
  ),
  ...[
    { alert: 'ProcessHangs', metric: 'partyline_hung_processes', more: {} },
    { alert: 'NodeRunsShort', metric: 'partyline_short', more: { resource: 'disk' } },
  ].map(({ alert, metric, more }) => ({
    name: `${alert}: fires for as long as Alertmanager waits (30 s), where it lasted for one scrape`,
    alert,
    series: [[labelled(metric, { ...NODE, ...more }), '0 0 1 0+0x20']] satisfies Case['series'],
    atS: 2 * STEP_S + 40,
    isFiring: true,
    labels: { ...NODE, ...more },
  })),
  sound('20 browsers, one legacy listener, and a packet a second that is late', false, {
    framesIn: 0,
    routerIn: 1000,
    framesOut: 50,
    dropped: { late: 1 },
  }),
  sound('a legacy room of 200, and one speaker that loses more than a third', true, {
    framesIn: 50,
    routerIn: 0,
    framesOut: 5970,
    dropped: { late: 20 },
  }),
  sound('listeners that do not read, and no speaker of this node', true, {
    framesIn: 0,
    routerIn: 0,
    framesOut: 1000,
    dropped: { unread: 20 },
  }),
  sound('one listener of many that does not read', false, {
    framesIn: 50,
    routerIn: 0,
    framesOut: 5970,
    dropped: { unread: 50 },
  }),
];

/** The annotations of a rule that fires with these labels. */
export const annotationsOf = ({ annotations }: Rule, labels: Record<string, string>) => ({
  summary: annotations.summary.replace(
    /\{\{ \$labels\.(\w+) \}\}/g,
    (_, label: string) => labels[label]!,
  ),
});

/** A case, as `promtool test rules` reads it. */
export const promtoolCase = (rule: Rule, { name, alert, series, atS, isFiring, labels }: Case) => ({
  name,
  interval: `${STEP_S}s`,
  input_series: series.map(([of, text]) => ({ series: of, values: text })),
  alert_rule_test: [
    {
      eval_time: `${atS}s`,
      alertname: alert,
      exp_alerts: isFiring
        ? [{ exp_labels: labels, exp_annotations: annotationsOf(rule, labels) }]
        : [],
    },
  ],
});
