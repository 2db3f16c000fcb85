import { describe, expect, test } from 'vitest';
import {
  DEFAULT_TIMINGS,
  readTimings,
  TIMINGS_VARIABLE,
  timingsWith,
} from '../../../config/timings.ts';

test('the defaults are those of the product', () => {
  expect(DEFAULT_TIMINGS).toEqual({
    leases: { leaseMs: 45_000, renewEveryMs: 15_000, retryEveryMs: 500, retryAfterMs: 5000 },
    usage: {
      freshMs: 1000,
      writeEveryMs: 5000,
      lastWriteMs: 4000,
      retryLastMs: 250,
      sweepEveryMs: 10_000,
      graceMs: 10_000,
      workerDeadAfterMs: 35_000,
      reportWithinMs: 120_000,
      reportRetryAfterMs: 1000,
    },
    webhooks: {
      beatEveryMs: 1000,
      deadAfterMs: 45_000,
      retryAfterMs: 500,
      leaveHoldMs: 2000,
      sweepEveryMs: 15_000,
      firstRetryMs: 5000,
      longestRetryMs: 60_000,
      requestTimeoutMs: 10_000,
      pagesEveryMs: 2000,
    },
    jobs: { lockMs: 30_000, stopMs: 8000, retryAfterMs: 1000, silentMs: 12_000 },
    nodes: { beatEveryMs: 1000, deadAfterMs: 3000, answerWithinMs: 500 },
    pipes: {
      retryAfterMs: 1000,
      longestRetryMs: 5000,
      readyWithinMs: 400,
      checkEveryMs: 10_000,
      absentAfterMs: 5000,
      silentAfterMs: 15_000,
      cutAfterMs: 60_000,
    },
    relay: {
      connectWithinMs: 2000,
      retryAfterMs: 500,
      probeEveryMs: 1000,
      idleMs: 60_000,
      maxAgeMs: 3000,
    },
    redis: {
      commandTimeoutMs: 1500,
      retryAfterMs: 2000,
      clockEveryMs: 5000,
      askEveryMs: 1000,
      longestReconnectMs: 1000,
      startWithinMs: 8000,
      reportLoadingMs: 3000,
      ownerWaitMs: 3000,
      checkServerEveryMs: 1000,
      restartServerAfterMs: 1000,
      sentinelEveryMs: 1000,
      sentinelWithinMs: 1000,
      stopServerWithinMs: 8000,
    },
    sessions: {
      beatEveryMs: 1000,
      changesWithinMs: 10_000,
      heartbeatEveryMs: 15_000,
      statsEveryMs: 5000,
      silentAfterMs: 30_000,
      soundPingEveryMs: 400,
      unansweredMs: 520,
      movesWithinMs: 1000,
      onTheWayMs: 200,
    },
    mediaWorkers: {
      startWithinMs: 20_000,
      probeEveryMs: 500,
      longestWaitMs: 5000,
      firstRoomRetryMs: 100,
      longestRoomRetryMs: 5000,
      spreadAgainAfterMs: 5000,
      producerRetryMs: 1000,
      memoryEveryMs: 100,
      growthWatchedMs: 15_000,
      transportsEveryMs: 2000,
      unreadForMs: 5000,
      firstReplacementMs: 500,
      longestReplacementMs: 30_000,
      steadyAfterMs: 60_000,
      endWithinMs: 500,
      endSlowlyWithinMs: 5000,
    },
    processes: {
      aliveEveryMs: 1000,
      checkEveryMs: 1000,
      firstRestartMs: 1000,
      longestRestartMs: 30_000,
      steadyAfterMs: 60_000,
      answerWithinMs: 2000,
      killAfterMs: 10_000,
      acceptWithinMs: 5000,
    },
    whip: { connectWithinMs: 30_000, consentMs: 30_000, answerWithinMs: 3000 },
    http: { requestMs: 10_000, idleMs: 90_000, summaryEveryMs: 60_000 },
    budgets: {
      tellAfterMs: 1000,
      closeAfterMs: 5000,
      tooFastAfterMs: 5000,
      rtpEndAfterMs: 5000,
      blockMs: 5000,
    },
    load: {
      sampleEveryMs: 1000,
      retryAfterMs: 5000,
      cheaperEveryMs: 2000,
      dearerAfterMs: 15_000,
      scrapeEveryMs: 1000,
      shortAfterFaultMs: 10_000,
      trimEveryMs: 5000,
    },
  });
});

describe('timingsWith()', () => {
  test('keeps the defaults of what is not overridden', () => {
    const { leases, nodes } = timingsWith({ leases: { leaseMs: 300 } });
    expect(leases).toEqual({ ...DEFAULT_TIMINGS.leases, leaseMs: 300 });
    expect(nodes).toEqual(DEFAULT_TIMINGS.nodes);
  });

  test.each([
    ['a group', { lease: { leaseMs: 300 } }, 'lease.leaseMs'],
    ['a duration', { leases: { lease: 300 } }, 'leases.lease'],
    ['no duration at all', { leases: { leaseMs: 0 } }, 'leases.leaseMs'],
    ['no number', { leases: { leaseMs: '300' } }, 'leases.leaseMs'],
  ])('throws for %s that is not known', (_what, overrides, name) => {
    expect(() => timingsWith(overrides as object)).toThrow(name);
  });
});

describe('readTimings()', () => {
  test('takes the overrides from the environment, for the processes of a test', () => {
    const environment = { [TIMINGS_VARIABLE]: '{"nodes":{"deadAfterMs":200}}' };
    expect(readTimings(environment).nodes.deadAfterMs).toBe(200);
    expect(readTimings({})).toEqual(DEFAULT_TIMINGS);
  });

  test('throws if the variable holds something else', () => {
    expect(() => readTimings({ [TIMINGS_VARIABLE]: 'soon' })).toThrow('JSON');
  });
});
