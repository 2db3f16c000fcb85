import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { transportMemory } from '../../../../packages/client/src/transport-memory.ts';

/** The networks on which WebRTC did not work, as a browser remembers them. */

const GATEWAY = 'voice.example.com';
const HOME = '203.0.113.0/24';
const OFFICE = '2001:db8:5:6::/64';
const DAY_MS = 24 * 60 * 60_000;
const STORED_AS = 'partyline-blocked-networks';

let stored: Map<string, string>;

beforeEach(() => {
  vi.useFakeTimers();
  stored = new Map();
  vi.stubGlobal('localStorage', {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, value: string) => void stored.set(name, value),
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('a network is blocked for a day, in other tabs, too', () => {
  transportMemory(GATEWAY).setBlocked(HOME, true);
  const memory = transportMemory(GATEWAY);
  vi.advanceTimersByTime(DAY_MS - 1000);
  expect(memory.isBlocked(HOME)).toBe(true);
  vi.advanceTimersByTime(2000);
  expect(memory.isBlocked(HOME)).toBe(false);
});

test('the day begins anew when the network is found blocked again, and ends when it is not', () => {
  const memory = transportMemory(GATEWAY);
  memory.setBlocked(HOME, true);
  vi.advanceTimersByTime(DAY_MS / 2);
  memory.setBlocked(HOME, true);
  vi.advanceTimersByTime(DAY_MS - 1000);
  expect(memory.isBlocked(HOME)).toBe(true);
  memory.setBlocked(HOME, false);
  expect(memory.isBlocked(HOME)).toBe(false);
});

test('a network is blocked for one gateway, and another network is not', () => {
  const memory = transportMemory(GATEWAY);
  const other = transportMemory('voice.example.org');
  memory.setBlocked(HOME, true);
  expect(memory.isBlocked(OFFICE)).toBe(false);
  expect(other.isBlocked(HOME)).toBe(false);
  memory.setBlocked(OFFICE, true);
  other.setBlocked(HOME, false);
  expect([HOME, OFFICE].map((network) => memory.isBlocked(network))).toEqual([true, true]);
  memory.setBlocked(OFFICE, false);
  expect([HOME, OFFICE].map((network) => memory.isBlocked(network))).toEqual([true, false]);
});

test('20 networks are remembered: those that were blocked last', () => {
  const memory = transportMemory(GATEWAY);
  const networks = Array.from({ length: 25 }, (_, i) => `203.0.${i}.0/24`);
  for (const network of networks) memory.setBlocked(network, true);
  // Blocked again: the oldest is now the newest.
  memory.setBlocked(networks[5]!, true);
  memory.setBlocked(HOME, true);
  const kept = networks.filter((network) => memory.isBlocked(network));
  expect(kept).toEqual([networks[5], ...networks.slice(7)]);
  expect(Object.keys(JSON.parse(stored.get(STORED_AS) ?? '{}') as object)).toHaveLength(20);
});

test('networks whose day is over are not stored any longer', () => {
  const memory = transportMemory(GATEWAY);
  memory.setBlocked(HOME, true);
  vi.advanceTimersByTime(DAY_MS + 1000);
  memory.setBlocked(OFFICE, true);
  expect(stored.get(STORED_AS)).not.toContain(HOME);
});

test.each(['', '{"', 'null', '5', '"text"', '[]', '[1]'])(
  'a storage that holds %j blocks nothing, and is replaced',
  (content) => {
    stored.set(STORED_AS, content);
    const memory = transportMemory(GATEWAY);
    expect(memory.isBlocked(HOME)).toBe(false);
    memory.setBlocked(HOME, true);
    expect(memory.isBlocked(HOME)).toBe(true);
    expect(memory.isBlocked(OFFICE)).toBe(false);
  },
);

test('a browser that forbids storage blocks nothing', () => {
  const forbid = () => {
    throw new DOMException('', 'SecurityError');
  };
  vi.stubGlobal('localStorage', { getItem: forbid, setItem: forbid });
  const memory = transportMemory(GATEWAY);
  memory.setBlocked(HOME, true);
  expect(memory.isBlocked(HOME)).toBe(false);
});

test('a storage that is full blocks nothing', () => {
  vi.stubGlobal('localStorage', {
    getItem: () => null,
    setItem: () => {
      throw new DOMException('', 'QuotaExceededError');
    },
  });
  const memory = transportMemory(GATEWAY);
  memory.setBlocked(HOME, true);
  expect(memory.isBlocked(HOME)).toBe(false);
});
