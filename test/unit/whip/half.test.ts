import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Credentials } from '../../../src/accounts/authenticator.ts';
import type { ClientTransport, PathState } from '../../../src/media/client-transport.ts';
import { type Fragment, Half } from '../../../src/whip/half.ts';
import { readOffer } from '../../../src/whip/offer.ts';
import { recordedOffer } from '../../support/offers.ts';

const TIMEOUTS = { connectWithinMs: 10_000, resumeMs: 60_000 };

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

/** Opens a half of a client in a state, which can restart ICE. */
function openHalf(state: PathState) {
  const path = {
    state,
    restartIce: async () => {},
    iceParameters: { usernameFragment: 'u', password: 'p' },
    iceCandidates: [],
  };
  const offer = readOffer(recordedOffer('obs-whip'), 'whip');
  const half = new Half('h', 'whip', offer, {} as Credentials, path as unknown as ClientTransport);
  let restarts = 0;
  const restart = async () => {
    restarts += 1;
    const ufrag = `restart-${restarts}`;
    const ice = { ufrag, pwd: 'p'.repeat(22), ufrags: new Set([ufrag]) };
    await half.patch('*', { read: async () => ice, chargeRestart: () => {} } satisfies Fragment);
  };
  const isOverdue = () => half.isOverdue(performance.now(), TIMEOUTS);
  return { half, path, restart, isOverdue };
}

test.each([
  ['lost', TIMEOUTS.resumeMs],
  ['opening', TIMEOUTS.connectWithinMs],
] as const)(
  'a client that is %s has its time once more after an ICE restart, but only twice in all',
  async (state, withinMs) => {
    const { restart, isOverdue } = openHalf(state);
    vi.advanceTimersByTime(withinMs - 100);
    await restart();
    vi.advanceTimersByTime(200);
    expect(isOverdue()).toBe(false);
    vi.advanceTimersByTime(withinMs - 1000);
    expect(isOverdue()).toBe(false);
    await restart();
    expect(isOverdue()).toBe(false);
    vi.advanceTimersByTime(1000);
    expect(isOverdue()).toBe(true);
  },
);

test('a client that restarts ICE and then does not come is ended that much later', async () => {
  const { restart, isOverdue } = openHalf('lost');
  vi.advanceTimersByTime(20_000);
  await restart();
  vi.advanceTimersByTime(TIMEOUTS.resumeMs - 1);
  expect(isOverdue()).toBe(false);
  vi.advanceTimersByTime(1);
  expect(isOverdue()).toBe(true);
});

test('the time begins anew with each loss of the path', async () => {
  const { half, path, restart, isOverdue } = openHalf('lost');
  await restart();
  vi.advanceTimersByTime(30_000);
  path.state = 'open';
  half.look(performance.now());
  vi.advanceTimersByTime(1_000_000);
  expect(isOverdue()).toBe(false);
  path.state = 'lost';
  half.look(performance.now());
  vi.advanceTimersByTime(TIMEOUTS.resumeMs - 1);
  expect(isOverdue()).toBe(false);
  vi.advanceTimersByTime(1);
  expect(isOverdue()).toBe(true);
});
