import { expect, test } from 'vitest';
import { FlowWatch } from '../../../packages/client/src/flow-watch.ts';
import { type Health, type WayMemory, Ways } from '../../../packages/client/src/ways.ts';

/** How the client chooses between WebRTC and the WebSocket, in virtual time. */

const MINUTE_MS = 60_000;
const HOME = '203.0.113.0/24';
const OFFICE = '198.51.100.0/24';

const GOOD: Health = {
  transport: 'webrtc',
  pathlessMs: 0,
  isInterrupted: false,
  isSilenced: false,
};
const OVER_WEBSOCKET: Health = { ...GOOD, transport: 'websocket' };

function memory(): WayMemory {
  const blocked = new Set<string>();
  return {
    isBlocked: (network) => blocked.has(network),
    setBlocked: (network, isBlocked) => {
      if (isBlocked) blocked.add(network);
      else blocked.delete(network);
    },
  };
}

function openWays(kept = memory()): Ways {
  const ways = new Ways(['webrtc', 'websocket'], kept);
  ways.onNetwork(HOME, 0);
  return ways;
}

test('WebRTC is joined first, and kept while it carries', () => {
  const ways = openWays();
  expect(ways.present).toBe('webrtc');
  expect(ways.next({ ...GOOD, pathlessMs: 2000 }, 2000)).toBeUndefined();
  for (let ms = 3000; ms < 60 * MINUTE_MS; ms += 500) expect(ways.next(GOOD, ms)).toBeUndefined();
});

test.each([
  ['no path within 2.5 s', { pathlessMs: 2500 }],
  ['a path that breaks', { isInterrupted: true }],
  ['sound that does not arrive', { isSilenced: true }],
])('%s: over to the WebSocket, at once', (_, trouble) => {
  expect(openWays().next({ ...GOOD, ...trouble }, 3000)).toBe('websocket');
});

test('back to WebRTC after a minute; if that fails, ever more seldom', () => {
  const ways = openWays();
  ways.changed('websocket', 0);
  const attempts: number[] = [];
  for (let ms = 0; ms < 120 * MINUTE_MS; ms += 500) {
    if (ways.next(OVER_WEBSOCKET, ms) === undefined) continue;
    attempts.push(ms / MINUTE_MS);
    ways.failed(ms);
  }
  expect(attempts).toEqual([1, 3, 7, 15, 31, 61, 91]);
});

test('at most one change a minute, however WebRTC comes and goes', () => {
  const ways = openWays();
  const changes: number[] = [];
  let transport: Health['transport'] = 'webrtc';
  for (let ms = 0; ms < 30 * MINUTE_MS; ms += 500) {
    const next = ways.next({ ...GOOD, transport, isInterrupted: transport === 'webrtc' }, ms);
    if (!next) continue;
    transport = next;
    ways.changed(next, ms);
    changes.push(ms);
  }
  expect(changes.length).toBeGreaterThan(5);
  const gaps = changes.slice(1).map((ms, i) => ms - changes[i]!);
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(MINUTE_MS);
});

test('a blocked network is remembered, and another is tried anew', () => {
  const kept = memory();
  openWays(kept).changed('websocket', 0);
  const again = openWays(kept);
  expect(again.present).toBe('websocket');
  again.onNetwork(OFFICE, 1000);
  expect(again.present).toBe('webrtc');
  again.onNetwork(HOME, 2000);
  again.changed('webrtc', 3000);
  expect(openWays(kept).present).toBe('webrtc');
});

test('a client that resumes over another network tries WebRTC again', () => {
  const ways = openWays();
  ways.changed('websocket', 0);
  ways.onNetwork(OFFICE, 2 * MINUTE_MS);
  expect(ways.next(OVER_WEBSOCKET, 2 * MINUTE_MS)).toBe('webrtc');
});

test('one transport alone is never left', () => {
  for (const transport of ['webrtc', 'websocket'] as const) {
    const ways = new Ways([transport], memory());
    ways.onNetwork(HOME, 0);
    expect(ways.areSeveral).toBe(false);
    expect(ways.giveUpPreferred(0)).toBe(false);
    const bad = { ...GOOD, transport, isInterrupted: true, isSilenced: true };
    expect(ways.next(bad, 10 * MINUTE_MS)).toBeUndefined();
  }
});

test('a browser without WebRTC goes over to the WebSocket before it has joined', () => {
  const ways = openWays();
  expect(ways.giveUpPreferred(0)).toBe(true);
  expect(ways.present).toBe('websocket');
  expect(ways.giveUpPreferred(0)).toBe(false);
});

test('the way down is silenced when others speak for 1.5 s and nothing comes', () => {
  const watch = new FlowWatch();
  for (let ms = 0; ms <= 5000; ms += 500) watch.note(false, 100, ms);
  expect(watch.isSilenced(5000)).toBe(false);
  for (let ms = 5500; ms <= 6500; ms += 500) watch.note(true, 100, ms);
  expect(watch.isSilenced(6500)).toBe(false);
  watch.note(true, 100, 7000);
  expect(watch.isSilenced(7000)).toBe(true);
  watch.note(true, 101, 7500);
  expect(watch.isSilenced(7500)).toBe(false);
});
