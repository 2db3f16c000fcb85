import { describe, expect, test } from 'vitest';
import { readSettings } from '../../config/settings.ts';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { AccountBudgets } from '../../src/accounts/account-budgets.ts';
import { connectRate } from '../../src/accounts/connection-budget.ts';
import { PLANS } from '../../src/accounts/plans.ts';
import { CLOSE_CODES } from '../../src/protocol/close-codes.ts';
import { checkName } from '../../src/protocol/names.ts';
import { MAX_SETTINGS_BYTES, serializeSettings } from '../../src/session/audio-settings.ts';
import { accountRate, costOf } from '../../src/session/message-budget.ts';
import { MAX_RECORDS_A_DAY, MAX_ROOMS_A_MINUTE } from '../../src/usage/meter.ts';
import { roomCountRate } from '../../src/usage/room-counts.ts';
import { left } from '../../src/webhooks/events.ts';
import { memoryRow, SECURITY_PAGE } from '../support/security-page.ts';

/** Figures of SECURITY.md that follow from several budgets, worked out from their settings. */

/** Cells of each row of the table of budgets. */
const BUDGETS = (/^\| budget \|.*\n\|[-|]+\|\n((?:\|.*\n)+)/m.exec(SECURITY_PAGE)?.[1] ?? '')
  .trimEnd()
  .split('\n')
  .map((row) => row.replace(/^\| | \|$/g, '').split(' | '));
const SCOPES = [
  'all nodes',
  'connection',
  'media worker',
  'pair of nodes',
  'peer and process',
  'process',
  'request',
  'room',
  'room and process',
  'usage worker',
];

describe('each budget', () => {
  const settings = Object.keys(readSettings({}));
  /** Returns whether there are settings of a name, `…` at its end for any. */
  const isSetting = (name: string) =>
    name.endsWith('…')
      ? settings.some((setting) => setting.startsWith(name.slice(0, -1)))
      : settings.includes(name);

  test('is told once, with its value, setting and scope', () => {
    expect(BUDGETS.length).toBeGreaterThan(50);
    expect(BUDGETS.filter((cells) => cells.length !== 4 || cells.includes(''))).toEqual([]);
    const names = BUDGETS.map(([name]) => name);
    expect(names).toEqual([...new Set(names)]);
  });

  test('has a setting that exists, or another reason for its value', () => {
    const named = BUDGETS.flatMap((cells) => cells.join().match(/(?<=`)[A-Z]+_[A-Z_]*…?/g) ?? []);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((name) => !isSetting(name))).toEqual([]);
    const others = BUDGETS.map(([, , setting]) => setting!.replaceAll(/`[A-Z]+_[A-Z_]*…?`/g, ''))
      .flatMap((rest) => rest.split(', '))
      .filter((rest) => rest !== '');
    const reasons = [
      '–',
      'its plan',
      '`ulimit -n`',
      'limits of the cgroup',
      "the machine's memory",
    ];
    expect(others.filter((reason) => !reasons.includes(reason))).toEqual([]);
  });

  test('has scopes of the list', () => {
    const scopes = BUDGETS.flatMap((cells) => cells[3]!.split('; '));
    const known = scopes.filter((scope) => SCOPES.includes(scope.replace(/^the \w+: /, '')));
    expect(known).toEqual(scopes);
  });
});

/** Returns the value of a budget in its table. */
function valueOf(budget: string): string {
  return BUDGETS.find(([name]) => name === budget)?.[1] ?? '';
}

describe('rooms that an account opens', () => {
  const [perMinute, atOnce] = valueOf('rooms that an account opens')
    .match(/(\d+), (\d+) or (\d+) (a minute|at once)/g)!
    .map((figures) => figures.match(/\d+/g)!.map(Number));
  const plans = (['free', 'starter', 'pro'] as const).map(
    (plan, index) => [plan, perMinute![index]!, atOnce![index]!] as const,
  );
  const STEP_MS = 10;
  const joinCost = costOf({ type: 'join', room: 'a' }, 0);

  /** Opens rooms for as long as the budgets of connections and of text messages allow it. @returns their number */
  function openRooms(plan: keyof typeof PLANS, forMs: number): number {
    const account = { id: 1, plan };
    const [connections, messages] = [
      new AccountBudgets(connectRate),
      new AccountBudgets(accountRate),
    ];
    let rooms = 0;
    for (let nowMs = 0; nowMs <= forMs; nowMs += STEP_MS) {
      // A session of WHIP opens a room without a message.
      while (connections.of(account, nowMs).take(1, nowMs) >= 0) rooms += 1;
      while (messages.of(account, nowMs).take(joinCost, nowMs) >= 0) rooms += 1;
    }
    return rooms;
  }

  test.each(plans)('%s: %i a minute, and %i at once', (plan, wantedPerMinute, wantedAtOnce) => {
    expect(openRooms(plan, 0)).toBe(wantedAtOnce);
    const inAMinute = openRooms(plan, 60_000) - wantedAtOnce;
    // The last of them may come a moment later.
    expect(inAMinute).toBeLessThanOrEqual(wantedPerMinute);
    expect(inAMinute).toBeGreaterThanOrEqual(wantedPerMinute - 2);
  });
});

test('rooms that are counted separately follow from the rates of the plans', () => {
  const rates = Object.values(PLANS).map(({ maxCcu }) => roomCountRate(maxCcu));
  const [atOnce, perMinute] = [
    rates.map(({ burst }) => burst),
    rates.map(({ perSecond }) => Math.round(60 * perSecond)),
  ].map((counts) => {
    const [free, starter, pro] = counts.map((count) => Math.min(count, MAX_ROOMS_A_MINUTE));
    return `${free}, ${starter} or ${pro}`;
  });
  expect(valueOf('rooms of an account that are counted separately in a minute')).toContain(
    `${atOnce} at once (free, starter, pro), then ${perMinute} a minute;`,
  );
});

test('consumers of a room follow from those of a browser and the connections of an account', () => {
  const [, ofBrowser] = /connected, then (\d+);/.exec(valueOf('consumers of a browser'))!;
  const most = (Number(ofBrowser) * PLANS.pro.maxCcu).toLocaleString('en');
  expect(valueOf('consumers of a room')).toContain(
    `${most} if each of ${PLANS.pro.maxCcu} browsers`,
  );
});

describe('memory of Redis', () => {
  const { USAGE_KEEP_DAYS, WEBHOOK_MAX_EVENTS, RESUME_MS } = readSettings({});
  const { maxCcu } = PLANS.pro;
  // Records of a day expire that many days after its end.
  const daysKept = USAGE_KEEP_DAYS + 1;
  const ROOMS = MAX_ROOMS_A_MINUTE + 1;
  const [MINUTES_A_DAY, HOURS_A_DAY, HOURS_KEPT] = [1440, 24, 48];
  const LONGEST_NAME = checkName('\u{1f600}'.repeat(128), 'room', 'bad_request');
  const UUID = '0e8400e2-9b7d-4d71-8a44-44665544000a';
  const bytesOf = (...parts: (string | number)[]) => Buffer.byteLength(parts.join(''));
  const peerMs = (minutes: number) => maxCcu * minutes * 60_000;
  const countOf = (minutes: number) => `${peerMs(minutes)}:${peerMs(minutes)}:${maxCcu}`;
  const minutes = memoryRow('record of a room in a minute');
  const hours = memoryRow('record of a room in an hour');
  const counts = memoryRow('count of a room');
  const events = memoryRow('webhook event');
  const settings = memoryRow('session and settings');

  test('names have at most 512 bytes', () => {
    expect(() => checkName(`${LONGEST_NAME}a`, 'room', 'bad_request')).toThrow('at most 128');
    expect(bytesOf(LONGEST_NAME)).toBe(512);
  });

  test('the text of each record is as long as the page says', () => {
    expect(bytesOf('13:37|', LONGEST_NAME, countOf(1))).toBe(minutes.text);
    expect(bytesOf('13|', LONGEST_NAME, countOf(60))).toBe(hours.text);
    expect(bytesOf(UUID, '|', LONGEST_NAME, countOf(1))).toBe(counts.text);
    const reasons = Object.keys(CLOSE_CODES) as (keyof typeof CLOSE_CODES)[];
    const [reason] = reasons.toSorted((one, other) => other.length - one.length);
    const peer = { accountId: 2 ** 31 - 1, room: LONGEST_NAME, peer: LONGEST_NAME } as const;
    const { peerEvent } = left({ ...peer, kind: 'websocket' }, reason!, Date.UTC(2026, 0)) as {
      peerEvent: object;
    };
    expect(bytesOf(JSON.stringify(peerEvent))).toBe(events.text);
    const volume = Object.fromEntries(
      Array.from({ length: 1000 }, (_, i) => [`${i}`.repeat(40), 0.5]),
    );
    const written = serializeSettings({
      in: 'auto',
      detected: undefined,
      out: undefined,
      delivery: 'mix',
      volume,
      isMuted: false,
    });
    expect(bytesOf(written)).toBeLessThanOrEqual(MAX_SETTINGS_BYTES);
    expect(bytesOf(LONGEST_NAME, UUID, ' ') + MAX_SETTINGS_BYTES).toBe(settings.text);
  });

  test('numbers and sums follow from the limits', () => {
    expect(minutes.number).toBe(MAX_RECORDS_A_DAY.minutes - 1 + ROOMS + MINUTES_A_DAY);
    expect(minutes.words).toContain(`\`USAGE_KEEP_DAYS\` (${USAGE_KEEP_DAYS})`);
    expect(hours.number).toBe(MAX_RECORDS_A_DAY.hours - 1 + ROOMS + HOURS_A_DAY);
    expect(counts.number).toBe(ROOMS);
    expect(events.number).toBe(WEBHOOK_MAX_EVENTS);
    const { burst, perSecond } = connectRate(maxCcu);
    const { leaseMs } = DEFAULT_TIMINGS.leases;
    // After an admission that failed they are kept for as long as a lease.
    const lost = burst + (perSecond * Math.max(leaseMs, RESUME_MS)) / 1000;
    expect(settings.words).toContain(
      `${maxCcu} that are connected, and ${lost} (${burst} at once, and ${perSecond} a second)`,
    );
    expect(settings.words).toContain(`the duration of a lease (${leaseMs / 1000} s; `);
    const ofOneProcess = [minutes, hours, counts, events, settings].map(
      ({ isOfOneProcess }) => isOfOneProcess,
    );
    expect(ofOneProcess).toEqual([false, false, true, false, true]);
    expect(minutes.words).toContain(`for ${daysKept} days`);
    const sums: [typeof minutes, number][] = [
      [minutes, minutes.number * daysKept],
      [hours, hours.number * daysKept],
      [counts, counts.number * HOURS_KEPT * 60],
      [events, events.number],
      [settings, maxCcu + lost],
    ];
    for (const [row, number] of sums) {
      const all = number * row.inRedis;
      expect(Math.abs(row.all - all)).toBeLessThanOrEqual(row.all > 1e9 ? 0.05e9 : 0.5e6);
    }
  });

  test('a free account has fewer records, because each has a millisecond', () => {
    const aMonth = PLANS.free.minutesPerMonth * 60_000;
    expect(SECURITY_PAGE).toContain(
      `100 minutes allow ${aMonth.toLocaleString('en')} minute records a month`,
    );
    // For each first day of four years, records of the days that are kept, by months.
    const atMost = Array.from({ length: 4 * 365 + 1 }, (_, first) => {
      const daysOf = new Map<string, number>();
      for (let day = first; day < first + daysKept; day += 1) {
        const month = new Date(Date.UTC(2027, 0, 1 + day)).toISOString().slice(0, 7);
        daysOf.set(month, (daysOf.get(month) ?? 0) + 1);
      }
      const records = [...daysOf.values()].map((days) => Math.min(aMonth, days * minutes.number));
      return { months: daysOf.size, records: records.reduce((sum, more) => sum + more) };
    });
    expect(Math.max(...atMost.map(({ months }) => months))).toBe(5);
    expect(Math.max(...atMost.map(({ records }) => records))).toBe(4 * aMonth);
    expect(SECURITY_PAGE).toContain(
      `${(4 * aMonth * minutes.inRedis) / 1e9} GB: ${daysKept} days may touch five months, but use up no more than four`,
    );
    const { burst, perSecond } = roomCountRate(PLANS.free.maxCcu);
    // All other rooms have one record a minute.
    const ofProcess = burst + perSecond * 86_400 + MINUTES_A_DAY;
    const inAll = (ofProcess * daysKept * minutes.inRedis) / 1e9;
    expect(SECURITY_PAGE).toContain(
      `${ofProcess.toLocaleString('en')} minute records a day to these, ${inAll.toFixed(1)} GB in ${daysKept} days`,
    );
    const ofStarter = PLANS.starter.minutesPerMonth * 60_000;
    expect(ofStarter).toBeGreaterThan(minutes.number * 31);
  });
});
