import { expect, test } from 'vitest';
import { FlowWatch } from '../../../../packages/client/src/flow-watch.ts';
import {
  type Health,
  type TransportMemory,
  TransportChooser,
} from '../../../../packages/client/src/transport-chooser.ts';

/** Tests of the client's choice between WebRTC and the WebSocket, in virtual time. */

const MINUTE_MS = 60_000;
const HOME = '203.0.113.0/24';
const OFFICE = '198.51.100.0/24';

const GOOD: Health = {
  transport: 'webrtc',
  pathlessMs: 0,
  isBroken: false,
  isOneWay: false,
};
const OVER_WEBSOCKET: Health = { ...GOOD, transport: 'websocket' };

function memory(): TransportMemory {
  const blocked = new Set<string>();
  return {
    isBlocked: (network) => blocked.has(network),
    setBlocked: (network, isBlocked) => {
      if (isBlocked) blocked.add(network);
      else blocked.delete(network);
    },
  };
}

function openChooser(kept = memory()): TransportChooser {
  const chooser = new TransportChooser(['webrtc', 'websocket'], kept);
  chooser.onNetwork(HOME, 0);
  return chooser;
}

test('WebRTC is joined first, and kept while it carries', () => {
  const chooser = openChooser();
  expect(chooser.present).toBe('webrtc');
  expect(chooser.next({ ...GOOD, pathlessMs: 2000 }, 2000)).toBeUndefined();
  for (let ms = 3000; ms < 60 * MINUTE_MS; ms += 500)
    expect(chooser.next(GOOD, ms)).toBeUndefined();
});

test.each([
  ['no path within 2.5 s', { pathlessMs: 2500 }],
  ['a path that breaks', { isBroken: true }],
  ['sound that does not arrive', { isOneWay: true }],
])('%s: over to the WebSocket, at once', (_, trouble) => {
  expect(openChooser().next({ ...GOOD, ...trouble }, 3000)).toBe('websocket');
});

test('back to WebRTC after a minute; if that fails, ever more seldom', () => {
  const chooser = openChooser();
  chooser.changed('websocket', 0);
  const attempts: number[] = [];
  for (let ms = 0; ms < 120 * MINUTE_MS; ms += 500) {
    if (chooser.next(OVER_WEBSOCKET, ms) === undefined) continue;
    attempts.push(ms / MINUTE_MS);
    chooser.failed('webrtc', ms, 'no_path');
  }
  expect(attempts).toEqual([1, 3, 7, 15, 31, 61, 91]);
});

type Change = { to: Health['transport']; ms: number };

/** Lives through half an hour of a WebRTC that does badly a while after each change to it. */
function changesWith(trouble: Partial<Health>, afterMs: number): Change[] {
  const chooser = openChooser();
  const changes: Change[] = [{ to: 'webrtc', ms: 0 }];
  for (let ms = 0; ms < 30 * MINUTE_MS; ms += 500) {
    const { to: transport, ms: sinceMs } = changes.at(-1)!;
    const isBad = transport === 'webrtc' && ms - sinceMs >= afterMs;
    const to = chooser.next({ ...GOOD, transport, ...(isBad && trouble) }, ms);
    if (!to) continue;
    chooser.changed(to, ms);
    changes.push({ to, ms });
  }
  return changes.slice(1);
}

/** Durations for which the client was over a transport, s. */
const stays = (changes: Change[], transport: Health['transport']) =>
  changes
    .slice(0, -1)
    .flatMap(({ to, ms }, i) => (to === transport ? [(changes[i + 1]!.ms - ms) / 1000] : []));

test('a WebRTC that is dead after each way back is left 5 s later, and tried ever more seldom', () => {
  const changes = changesWith({ isBroken: true }, 0);
  expect(changes[0]).toEqual({ to: 'websocket', ms: 0 });
  expect(stays(changes, 'webrtc')).toEqual([5, 5, 5, 5]);
  expect(stays(changes, 'websocket')).toEqual([60, 120, 240, 480]);
});

test('one that breaks after two minutes is left at once, and tried again after a minute', () => {
  const changes = changesWith({ isBroken: true }, 2 * MINUTE_MS);
  expect(changes.length).toBeGreaterThan(5);
  expect(new Set(stays(changes, 'webrtc'))).toEqual(new Set([120]));
  expect(new Set(stays(changes, 'websocket'))).toEqual(new Set([60]));
});

test('one that carries in one direction is left a minute after each way back, and tried ever more seldom', () => {
  const changes = changesWith({ isOneWay: true }, 0);
  expect(changes[0]).toEqual({ to: 'websocket', ms: 0 });
  expect(stays(changes, 'webrtc')).toEqual([60, 60, 60, 60]);
  expect(stays(changes, 'websocket')).toEqual([60, 120, 240, 480]);
});

test.each([
  ['is dead', { isBroken: true }, 10],
  ['carries in one direction', { isOneWay: true }, 30],
])('a WebRTC that %s, and cannot be left, is to be left again later', (_, trouble, pauseS) => {
  const chooser = openChooser();
  const attempts: number[] = [];
  for (let ms = 0; ms < 2 * MINUTE_MS; ms += 500) {
    if (chooser.next({ ...GOOD, ...trouble }, ms) === undefined) continue;
    attempts.push(ms / 1000);
    chooser.failed('websocket', ms, 'refused');
  }
  expect(attempts.slice(0, 4)).toEqual([0, pauseS, 2 * pauseS, 3 * pauseS]);
});

test('a blocked network is remembered, and another is tried anew', () => {
  const kept = memory();
  openChooser(kept).changed('websocket', 0);
  const again = openChooser(kept);
  expect(again.present).toBe('websocket');
  again.onNetwork(OFFICE, 1000);
  expect(again.present).toBe('webrtc');
  again.onNetwork(HOME, 2000);
  again.changed('webrtc', 3000);
  expect(openChooser(kept).present).toBe('webrtc');
});

test('a client that prefers the WebSocket joins by it where WebRTC is blocked, and blocks no network itself', () => {
  const kept = memory();
  kept.setBlocked(HOME, true);
  const chooser = new TransportChooser(['websocket', 'webrtc'], kept);
  chooser.onNetwork(HOME, 0);
  expect(chooser.present).toBe('websocket');
  chooser.onNetwork(OFFICE, 1000);
  expect(chooser.giveUpPresent(2000)).toBe(true);
  expect(chooser.present).toBe('webrtc');
  expect(kept.isBlocked(OFFICE)).toBe(false);
  // A network that another client found to be blocked stays so.
  chooser.onNetwork(HOME, 3000);
  chooser.changed('websocket', 4000);
  expect(kept.isBlocked(HOME)).toBe(true);
});

test('a client that resumes over another network tries WebRTC again', () => {
  const chooser = openChooser();
  chooser.changed('websocket', 0);
  chooser.onNetwork(OFFICE, 1000);
  expect(chooser.next(OVER_WEBSOCKET, 1000)).toBe('webrtc');
  // If that fails, it is put off as any other attempt.
  chooser.failed('webrtc', 2000, 'no_path');
  expect(chooser.next(OVER_WEBSOCKET, 2000 + MINUTE_MS - 1)).toBeUndefined();
  expect(chooser.next(OVER_WEBSOCKET, 2000 + MINUTE_MS)).toBe('webrtc');
});

test.each([
  ['no_path', 'websocket', true],
  ['refused', 'websocket', false],
  // The room was left meanwhile, for instance.
  ['interrupted', 'webrtc', false],
] as const)(
  'a way back to WebRTC on another network that failed by %s: joins go by %s',
  (cause, present, isBlocked) => {
    const kept = memory();
    const chooser = openChooser(kept);
    chooser.changed('websocket', 0);
    chooser.onNetwork(OFFICE, 1000);
    expect(chooser.present).toBe('webrtc');
    chooser.failed('webrtc', 2000, cause);
    expect(chooser.present).toBe(present);
    expect(kept.isBlocked(OFFICE)).toBe(isBlocked);
  },
);

test('on another network nothing is held back because of changes on the one before', () => {
  const chooser = openChooser();
  chooser.changed('websocket', 0);
  chooser.changed('webrtc', MINUTE_MS);
  const oneWay = { ...GOOD, isOneWay: true };
  expect(chooser.next(oneWay, MINUTE_MS + 1000)).toBeUndefined();
  chooser.onNetwork(OFFICE, MINUTE_MS + 1000);
  expect(chooser.next(oneWay, MINUTE_MS + 1000)).toBe('websocket');
});

test('a client that the gateway has over the WebSocket goes on so on another network, and tries WebRTC at once', () => {
  const chooser = openChooser();
  chooser.changed('websocket', 0);
  chooser.onNetwork(OFFICE, 1000);
  chooser.startWith('websocket');
  expect(chooser.present).toBe('websocket');
  expect(chooser.next(OVER_WEBSOCKET, 1000)).toBe('webrtc');
});

test('one transport alone is never left', () => {
  for (const transport of ['webrtc', 'websocket'] as const) {
    const chooser = new TransportChooser([transport], memory());
    chooser.onNetwork(HOME, 0);
    chooser.startWith(transport === 'webrtc' ? 'websocket' : 'webrtc');
    expect(chooser.present).toBe(transport);
    expect(chooser.areSeveral).toBe(false);
    expect(chooser.giveUpPresent(0)).toBe(false);
    const bad = { ...GOOD, transport, isBroken: true, isOneWay: true };
    expect(chooser.next(bad, 10 * MINUTE_MS)).toBeUndefined();
  }
});

test('a browser without WebRTC goes over to the WebSocket before it has joined, and blocks no network', () => {
  const kept = memory();
  const chooser = openChooser(kept);
  expect(chooser.giveUpPresent(0)).toBe(true);
  expect(chooser.present).toBe('websocket');
  expect(chooser.giveUpPresent(0)).toBe(false);
  expect(kept.isBlocked(HOME)).toBe(false);
  expect(chooser.next(OVER_WEBSOCKET, MINUTE_MS)).toBe('webrtc');
});

test('after a join that failed by both transports the next one begins with the preferred one', () => {
  const chooser = openChooser();
  expect(chooser.giveUpPresent(0)).toBe(true);
  expect(chooser.giveUpPresent(100)).toBe(false);
  expect(chooser.present).toBe('webrtc');
  expect(chooser.giveUpPresent(1000)).toBe(true);
  expect(chooser.present).toBe('websocket');
});

test('on a blocked network a join that failed over the WebSocket is followed by one by WebRTC only after a minute', () => {
  const kept = memory();
  kept.setBlocked(HOME, true);
  const chooser = openChooser(kept);
  expect(chooser.giveUpPresent(MINUTE_MS - 1)).toBe(false);
  expect(chooser.present).toBe('websocket');
  expect(chooser.giveUpPresent(MINUTE_MS)).toBe(false);
  expect(chooser.present).toBe('webrtc');
});

test('nothing arrives when others speak for 1.5 s and nothing comes', () => {
  const watch = new FlowWatch();
  for (let ms = 0; ms <= 5000; ms += 500) watch.note(false, 100, ms);
  expect(watch.nothingArrivesSinceMs(5000)).toBeUndefined();
  for (let ms = 5500; ms <= 6500; ms += 500) watch.note(true, 100, ms);
  expect(watch.nothingArrivesSinceMs(6500)).toBeUndefined();
  watch.note(true, 100, 7000);
  expect(watch.nothingArrivesSinceMs(7000)).toBe(5500);
  watch.note(true, 101, 7500);
  expect(watch.nothingArrivesSinceMs(7500)).toBeUndefined();
});
