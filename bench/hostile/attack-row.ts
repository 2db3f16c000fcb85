import { met } from '../goals.ts';
import type { Attack, AttackReport } from './attack.ts';
import { ms } from './ears.ts';

/** Verdict and row of one attack. */

/** Connections of a pro account. */
export const CROWD_CLIENTS = 500;

/** Bounds beyond quiet and floor, for one attacker and for a crowd. */
export const GOALS = {
  one: { gapMs: 60, loopMs: 20 },
  crowd: { gapMs: 200, loopMs: 50 },
  heapMb: 20,
  /** Growth by a second attack, of which a garbage collection leaves some to chance. */
  heapAgainMb: 4,
  redisMb: 3,
};

/**
 * Messages for each client below which there was no attack; of one that connects again and again, connections. Few, because those of
 * 64 KB fill the buffers of 500 connections; a single client must have sent more.
 */
const LEAST_OF_EACH = 2;
const LEAST_IN_ALL = 10;
export const leastSent = (clients: number) => Math.max(LEAST_IN_ALL, LEAST_OF_EACH * clients);
/** Share of the clients that must have been accepted. */
const LEAST_ACCEPTED = 0.5;
const CODES_SHOWN = 3;

/** Cost of the same attack for a server that does next to nothing: the longest gap, and the 99th percentile of the event loop. */
export type Floor = { gapMs: number; loopMs: number; attackers: AttackReport };

export type Measured = {
  gapMs: number;
  quietMs: number;
  /** Undefined if the attack is none for a bare server. */
  floor: Floor | undefined;
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

/**
 * Keys that may be there without an expiry when an attacker has gone: a worker closes minutes (which then expire) and removes events
 * that nobody took, and the bench has no workers; the rest has one field for each account, month or node.
 */
const STAYING = [
  /^partyline:usage:open(:\d+(:[\dT:-]+)?)?$/,
  /^partyline:usage:months:\d+$/,
  /^partyline:webhooks:(outbox:\d+\n|rooms:\d+$)/,
  /^partyline:webhooks:(accounts|counts|dropped|dropped_of|nodes|numbers|seen)$/,
];
export const mayStay = (key: string) => STAYING.some((pattern) => pattern.test(key));

/** True if the server had to bear what the attack's name says. */
function hasAttacked(attack: Attack, report: AttackReport, clients: number): boolean {
  const { connections, accepted, messages } = report;
  // Most of those that connect again and again are to be refused; a bare server refuses none.
  if ('reconnectAfter' in attack) return connections >= leastSent(clients);
  if ('isRefused' in attack) return Math.max(connections, messages) >= leastSent(clients);
  return accepted >= clients * LEAST_ACCEPTED && messages >= leastSent(clients);
}

/** True if there was an attack, on the gateway as on the bare server, and it stayed within the goals. */
export function isWithin(attack: Attack, measured: Measured, clients: number): boolean {
  const { gapMs, quietMs, floor, loopMs, heapMb, heapAgainMb, redisMb, keptKeys, attackers } =
    measured;
  const provoked = 'provokes' in attack ? attack.provokes : undefined;
  const goal = clients === 1 ? GOALS.one : GOALS.crowd;
  return (
    hasAttacked(attack, attackers, clients) &&
    (!floor || hasAttacked(attack, floor.attackers, clients)) &&
    (provoked === undefined || attackers.told[provoked] !== undefined) &&
    gapMs - Math.max(quietMs, floor?.gapMs ?? 0) <= goal.gapMs &&
    loopMs - (floor?.loopMs ?? 0) <= goal.loopMs &&
    heapMb <= GOALS.heapMb &&
    heapAgainMb <= GOALS.heapAgainMb &&
    redisMb <= GOALS.redisMb &&
    keptKeys.length === 0
  );
}

const mb = (value: number) => `${value.toFixed(1)} MB`;

function sentOf({ connections, accepted, messages, bytes }: AttackReport): string {
  return `${accepted} accepted, ${connections} ${connections === 1 ? 'connection' : 'connections'}, ${messages} messages, ${mb(bytes / 1e6)}`;
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
