import { PLANS } from '../../src/accounts/plans.ts';
import { met } from '../goals.ts';
import type { Attack, AttackReport } from './attack.ts';
import { ms } from './ears.ts';

/** Verdict and row of one attack. */

/** Connections of a pro account. */
export const CROWD_CLIENTS = 500;

/**
 * For one attacker and for a crowd, the maximum longest gap beyond the larger of quiet and floor, and the maximum p99 of the event loop's
 * delay beyond the floor, ms; for both, the maximum growth, MB.
 */
export const GOALS = {
  one: { gapMs: 60, loopMs: 20 },
  crowd: { gapMs: 200, loopMs: 50 },
  heapMb: 20,
  /** Further growth by a second attack: not 0, because what a garbage collection frees varies. */
  heapAgainMb: 4,
  redisMb: 3,
};

/**
 * Minimum number of messages per client (or connections, for attacks that reconnect) for an attack to count. It is small because messages
 * of 64 KB fill the buffers of 500 connections; for few clients {@link LEAST_IN_ALL} applies.
 */
const LEAST_OF_EACH = 2;
const LEAST_IN_ALL = 10;
export const leastSent = (clients: number) => Math.max(LEAST_IN_ALL, LEAST_OF_EACH * clients);
/** Minimum share of the clients that must have been accepted. */
const LEAST_ACCEPTED = 0.5;
const CODES_SHOWN = 3;
/** Up to this many clients count as one attacker (goals `one`): the connections of a free account. */
const FREE_CLIENTS = PLANS.free.maxCcu;
/** Maximum number of bytes that a listener may be sent for a message of 20 ms of sound (SECURITY.md, "bytes of Opus"), with its head. */
const HEARD_BYTES = 1504;

/** Cost of the same attack for a server that does next to nothing: the longest gap, and the 99th percentile of the event loop. */
export type Floor = { gapMs: number; loopMs: number; attackers: AttackReport };

export type Measured = {
  /** Longest time for which a listener heard nothing during the attack, ms. */
  gapMs: number;
  /** Longest such time without an attack. */
  quietMs: number;
  /** Undefined if the attack does nothing to the bare server (`hasNoFloor`). */
  floor: Floor | undefined;
  /** 99th percentile of the event loop's delay, ms. */
  loopMs: number;
  /** Growth by the first attack. */
  heapMb: number;
  /** Further growth by the second. */
  heapAgainMb: number;
  /** Growth by both. */
  redisMb: number;
  /** Keys of Redis that the attacks left, that never expire, and that may not stay ({@link mayStay}). */
  keptKeys: string[];
  attackers: AttackReport;
};

export const attacksHeading = (clients: number, seconds: number) =>
  `| ${clients === 1 ? 'one client of a free account' : `${clients} connections of a pro account`}, ${seconds} s each | longest gap | quiet | floor | loop p99 | floor | heap after | again | Redis after | sent | told | |\n` +
  '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n';

/** Returns the name of a row, with what differs from the heading of its table. @param wanted clients in the heading */
export function nameOf({ name, leastPlan }: Attack, clients: number, wanted: number): string {
  const remarks = [
    ...(wanted === 1 && leastPlan ? [`a ${leastPlan} account`] : []),
    ...(clients === wanted
      ? []
      : [`${clients} clients in place of ${wanted === 1 ? 'one' : wanted}`]),
  ];
  return remarks.length === 0 ? name : `${name} (${remarks.join('; ')})`;
}

/**
 * Keys without an expiry that may remain after an attack. Usage workers close minutes (which then expire) and remove events that were not
 * delivered, but the bench runs none, except with a webhook: BullMQ then makes two keys for its queue. Every other key has one field for
 * each account, month or node.
 */
const STAYING = [
  /^partyline:bullmq:usage:(id|events)$/,
  /^partyline:usage:open(:\d+(:[\dT:-]+)?)?$/,
  /^partyline:usage:months:\d+$/,
  /^partyline:webhooks:(outbox:\d+\n|rooms:\d+$)/,
  /^partyline:webhooks:(accounts|counts|dropped|dropped_of|holders|nodes|numbers|seen)$/,
];
export const mayStay = (key: string) => STAYING.some((pattern) => pattern.test(key));

/** Returns true if enough clients and messages, or connections, reached the server for the attack to count. */
function hasAttacked(attack: Attack, report: AttackReport, clients: number): boolean {
  const { connections, accepted, messages } = report;
  // The gateway should refuse most of these connections, so they count whether accepted or not.
  if ('reconnectAfter' in attack) return connections >= leastSent(clients);
  if ('isRefused' in attack) return Math.max(connections, messages) >= leastSent(clients);
  return accepted >= clients * LEAST_ACCEPTED && messages >= leastSent(clients);
}

/** Returns true if the attack's listeners, if it has any, heard its sound and were sent no padding. */
function isHeardInBounds(attack: Attack, { heardBytes = 0, messages }: AttackReport): boolean {
  if (!('listeners' in attack)) return true;
  return heardBytes > 0 && heardBytes <= messages * attack.listeners * HEARD_BYTES;
}

/** Returns the part of a floor that counts: one beyond its goal shows that the attack blocks the bare server, not what the machine allows. */
const countedFloor = (floorMs = 0, goalMs: number) => Math.min(floorMs, goalMs);

/** Returns true if there was an attack, on the gateway as on the bare server, and it stayed within the goals. */
export function isWithin(attack: Attack, measured: Measured, clients: number): boolean {
  const { gapMs, quietMs, floor, loopMs, heapMb, heapAgainMb, redisMb, keptKeys, attackers } =
    measured;
  const provoked = 'provokes' in attack ? attack.provokes : undefined;
  const goal = clients <= FREE_CLIENTS ? GOALS.one : GOALS.crowd;
  return (
    hasAttacked(attack, attackers, clients) &&
    (!floor || hasAttacked(attack, floor.attackers, clients)) &&
    isHeardInBounds(attack, attackers) &&
    (provoked === undefined || attackers.told[provoked] !== undefined) &&
    gapMs - Math.max(quietMs, countedFloor(floor?.gapMs, goal.gapMs)) <= goal.gapMs &&
    loopMs - countedFloor(floor?.loopMs, goal.loopMs) <= goal.loopMs &&
    heapMb <= GOALS.heapMb &&
    heapAgainMb <= GOALS.heapAgainMb &&
    redisMb <= GOALS.redisMb &&
    keptKeys.length === 0
  );
}

const mb = (value: number) => `${value.toFixed(1)} MB`;

function sentOf(report: AttackReport): string {
  const { connections, accepted, messages, bytes, answerBytes, heardBytes } = report;
  const cells = [
    `${accepted} accepted`,
    ...(connections > 0 ? [connections === 1 ? '1 connection' : `${connections} connections`] : []),
    `${messages} messages`,
    mb(bytes / 1e6),
  ];
  const answers = answerBytes === undefined ? '' : `; ${mb(answerBytes / 1e6)} of answers`;
  const heard =
    heardBytes === undefined ? '' : `; ${(heardBytes / 1000).toFixed(0)} kB to listeners`;
  return `${cells.join(', ')}${answers}${heard}`;
}

function toldOf({ told }: AttackReport): string {
  const most = Object.entries(told)
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, CODES_SHOWN)
    .map(([code, times]) => `${code} × ${times}`);
  return most.join(', ') || 'nothing';
}

export function rowOf(name: string, measured: Measured, isMet: boolean): string {
  const { gapMs, quietMs, floor, loopMs, heapMb, heapAgainMb, redisMb, keptKeys, attackers } =
    measured;
  const delays = [gapMs, quietMs, floor?.gapMs, loopMs, floor?.loopMs].map((value) =>
    value === undefined ? '–' : ms(value),
  );
  const kept = keptKeys.map((key) => `, never expires: ${JSON.stringify(key)}`).join('');
  const memory = [mb(heapMb), mb(heapAgainMb), `${mb(redisMb)}${kept}`];
  const cells = [name, ...delays, ...memory, sentOf(attackers), toldOf(attackers), met(isMet)];
  return `| ${cells.join(' | ')} |\n`;
}
