import { type Static, type TProperties, Type } from 'typebox';
import { Value } from 'typebox/value';

/** A duration in milliseconds. */
const ms = (value: number, description: string) =>
  Type.Number({ default: value, minimum: 1, description });

const durations = <P extends TProperties>(properties: P) =>
  Type.Object(properties, { default: {} });

/**
 * Durations of the life cycle that a test would have to wait for: leases, deaths, deadlines, holds, back-offs and intervals, in
 * milliseconds. Operators do not set them. Tests choose shorter ones, so that no test waits for a product constant. Durations that
 * belong to one algorithm are beside it: those of signal processing (frames, jitter, fades) and of the threads that do it, windows in
 * which something is counted or remembered, and polls and retries of less than a second that nothing else waits for.
 */
const TimingsSchema = Type.Object(
  {
    leases: durations({
      leaseMs: ms(45_000, 'Time after its last renewal at which a lease expires'),
      renewEveryMs: ms(15_000, 'Interval at which a process renews the leases it holds'),
      retryEveryMs: ms(
        500,
        'Interval at which a Redis that takes no writes after a reconnect is asked',
      ),
      retryAfterMs: ms(5000, 'Delay told to a client that is refused for the CCU limit'),
    }),
    usage: durations({
      freshMs: ms(1000, 'Time for which the used minutes of an account are cached'),
      writeEveryMs: ms(5000, 'Interval of usage writes; a killed process loses at most this much'),
      lastWriteMs: ms(4000, 'Time for which a process that ends tries to write its last minutes'),
      retryLastMs: ms(250, 'Delay between these attempts'),
      sweepEveryMs: ms(10_000, 'Interval at which usage workers look for minutes to close'),
      graceMs: ms(10_000, 'Time after its end at which a minute may be closed'),
      workerDeadAfterMs: ms(35_000, 'Silence after which a usage worker counts as gone'),
      reportWithinMs: ms(
        120_000,
        'Time that a client has to read its report; the next one of its account waits',
      ),
      reportRetryAfterMs: ms(
        1000,
        'Delay told to an account that asks for too many reports at once',
      ),
    }),
    webhooks: durations({
      beatEveryMs: ms(1000, 'Interval of the heartbeat of a node that has reported peers'),
      deadAfterMs: ms(45_000, 'Silence after which the peers of such a node are reported as left'),
      retryAfterMs: ms(500, 'Delay before changes that Redis did not accept are written again'),
      leaveHoldMs: ms(
        2000,
        'Time for which the leave of a peer that is on another node is held back: the other node reports its join meanwhile',
      ),
      sweepEveryMs: ms(15_000, 'Interval of the search for unsent events and dead nodes'),
      firstRetryMs: ms(5000, 'First delay between attempts to deliver an event; doubles'),
      longestRetryMs: ms(60_000, 'Longest such delay'),
      requestTimeoutMs: ms(10_000, 'Time that an endpoint has to answer'),
      pagesEveryMs: ms(
        2000,
        'Minimum time between reading the last page of waiting rooms and the first one again',
      ),
    }),
    jobs: durations({
      lockMs: ms(30_000, 'Time after which the job of a dead worker is taken up by another'),
      stopMs: ms(8000, 'Time that a worker has to end on a signal'),
      retryAfterMs: ms(1000, 'Time for which a worker takes no job after an error of Redis'),
      silentMs: ms(
        12_000,
        'Time without a byte in either direction after which a worker connects again; BullMQ waits for a job for up to 10 s',
      ),
    }),
    nodes: durations({
      beatEveryMs: ms(1000, 'Interval of the heartbeat of a node'),
      deadAfterMs: ms(3000, 'Silence after which a node counts as dead'),
      answerWithinMs: ms(500, 'Time that other nodes have to answer an operator’s question'),
    }),
    pipes: durations({
      retryAfterMs: ms(
        1000,
        'Delay before a failed pipe or a failed write of room state is retried; doubles for room state',
      ),
      longestRetryMs: ms(5000, 'Longest such delay'),
      readyWithinMs: ms(400, 'Longest wait of a speaker’s first packets for other nodes'),
      checkEveryMs: ms(10_000, 'Interval at which a pipe is checked'),
      absentAfterMs: ms(
        5000,
        'Time after an interruption within which a node that has a room must have written its state',
      ),
      silentAfterMs: ms(15_000, 'Silence of the other end by which a pipe counts as silent'),
      cutAfterMs: ms(60_000, 'Silence of both ends after which a pipe is opened anew'),
    }),
    relay: durations({
      connectWithinMs: ms(2000, 'Time that a connection between nodes has to open, both ways'),
      retryAfterMs: ms(500, 'Delay before a connection that failed is opened again'),
      probeEveryMs: ms(1000, 'Interval of probes; three without an answer end a connection'),
      idleMs: ms(60_000, 'Time without messages after which a connection is closed'),
      maxAgeMs: ms(3000, 'Age at which a message that waits for another node is dropped'),
    }),
    redis: durations({
      commandTimeoutMs: ms(1500, 'Time that Redis has to answer a command'),
      retryAfterMs: ms(
        2000,
        'Delay told to a client that is refused because Redis is disconnected, and before a missed change of an account is applied',
      ),
      clockEveryMs: ms(5000, 'Interval at which a process looks at the clock of Redis'),
      askEveryMs: ms(
        1000,
        'Interval at which connections are asked for a sign of life; a connection is suspect after five questions without an answer',
      ),
      longestReconnectMs: ms(1000, 'Longest delay between attempts to connect'),
      sentinelEveryMs: ms(1000, 'Interval at which sentinels are asked where the primary is'),
      sentinelWithinMs: ms(1000, 'Time that a sentinel has to answer, and the primary to accept'),
      startWithinMs: ms(
        8000,
        'Time without progress after which waiting for Redis at a start ends',
      ),
      reportLoadingMs: ms(3000, 'Interval of log lines while Redis loads its data'),
      ownerWaitMs: ms(3000, 'Longest wait for a data folder whose owner may be about to end'),
      checkServerEveryMs: ms(
        1000,
        "Interval of checks of the gateway's redis-server; eight probes without an answer end it",
      ),
      restartServerAfterMs: ms(1000, "Delay before the gateway's redis-server is started again"),
      stopServerWithinMs: ms(
        8000,
        "Time that the gateway's redis-server has to end before it is killed",
      ),
    }),
    sessions: durations({
      beatEveryMs: ms(1000, 'Interval at which the sessions of a process are looked at'),
      heartbeatEveryMs: ms(15_000, 'Interval of WebSocket pings, told as heartbeat_ms'),
      statsEveryMs: ms(
        5000,
        'Interval of "stats" messages, and of pings to clients that want them',
      ),
      silentAfterMs: ms(30_000, 'Silence after which a client is closed with 4408'),
      soundPingEveryMs: ms(400, 'Duration of audio sent to a client between two pings'),
      unansweredMs: ms(520, 'Age of an unanswered ping at which no more audio is sent'),
      movesWithinMs: ms(1000, 'Longest life of a connection whose peer has connected elsewhere'),
      changesWithinMs: ms(
        10_000,
        'Longest time for which a change between WebSocket and WebRTC waits for the first packet',
      ),
      onTheWayMs: ms(200, 'Time that messages to a connection that moved may take to arrive'),
    }),
    mediaWorkers: durations({
      startWithinMs: ms(
        20_000,
        'Time that a media worker has to start before it is killed; it takes 50 ms unless it hangs',
      ),
      probeEveryMs: ms(500, 'Interval of probes; three without an answer end a media worker'),
      longestWaitMs: ms(5000, 'Time that a room waits for a media worker'),
      firstRoomRetryMs: ms(
        100,
        'Delay after a room whose media worker died has found no other; doubles',
      ),
      longestRoomRetryMs: ms(5000, 'Longest such delay'),
      spreadAgainAfterMs: ms(
        5000,
        'Time after which a room that could not use a further media worker tries again',
      ),
      producerRetryMs: ms(
        1000,
        'Delay before the sound of a WebSocket peer opens another producer after one could not be',
      ),
      memoryEveryMs: ms(100, 'Interval at which the memory of a media worker is read'),
      growthWatchedMs: ms(
        15_000,
        'Time after its memory has grown for which the transports of a media worker are looked at',
      ),
      transportsEveryMs: ms(2000, 'Interval at which they are looked at'),
      unreadForMs: ms(
        5000,
        'Time after which a client over TCP that does not read is cut off then',
      ),
      firstReplacementMs: ms(500, 'Delay before the second replacement in a row; doubles'),
      longestReplacementMs: ms(30_000, 'Longest such delay'),
      steadyAfterMs: ms(60_000, 'Life after which a death does not count as one in a row'),
      endWithinMs: ms(
        500,
        'Time that a media worker has to end before it is killed; it takes 5 ms unless it hangs',
      ),
      endSlowlyWithinMs: ms(
        5000,
        'Further time, unless it is stopped: a killed one does not close the DTLS connections of its clients',
      ),
    }),
    processes: durations({
      aliveEveryMs: ms(
        1000,
        'Interval at which a gateway process or usage worker tells the process that started it that it runs',
      ),
      checkEveryMs: ms(
        1000,
        'Interval at which a process checks that its child has told it so; ten silent checks end the child',
      ),
      firstRestartMs: ms(1000, 'Delay before a process that ended is started again; doubles'),
      longestRestartMs: ms(30_000, 'Longest such delay'),
      steadyAfterMs: ms(60_000, 'Life after which the delay begins anew'),
      answerWithinMs: ms(2000, 'Time that another gateway process has to answer with its metrics'),
      killAfterMs: ms(10_000, 'Time that a process has to end before it is killed'),
      acceptWithinMs: ms(
        5000,
        'Time that a process has to accept a connection; one that takes longer hangs, and the client connects again',
      ),
    }),
    whip: durations({
      connectWithinMs: ms(30_000, 'Time that a client of WHIP or WHEP has to connect'),
      consentMs: ms(30_000, 'Time without a consent check after which its path is lost'),
      answerWithinMs: ms(3000, 'Time that the node of its session has to answer another'),
    }),
    http: durations({
      requestMs: ms(10_000, 'Time that a client has to send a request, and to shake hands for TLS'),
      idleMs: ms(90_000, 'Silence after which a connection that is no WebSocket is closed'),
      summaryEveryMs: ms(
        60_000,
        'Interval at which the log sums up requests and lines about clients: refused ones, and those of accounts with many',
      ),
    }),
    budgets: durations({
      tellAfterMs: ms(1000, 'Time over its budget after which a client is told rate_limited'),
      closeAfterMs: ms(5000, 'Time over its budget after which a client is closed with 4429'),
      tooFastAfterMs: ms(
        5000,
        'Time for which audio over a WebSocket may be ahead of real time before its client is closed with 4422',
      ),
      rtpEndAfterMs: ms(5000, 'Time over its budget of RTP after which a sender is ended'),
      blockMs: ms(5000, 'Time for which an account that connected too often is kept out'),
    }),
    load: durations({
      sampleEveryMs: ms(1000, 'Interval at which the load is measured'),
      retryAfterMs: ms(5000, 'Delay told to a client that is refused for overload'),
      cheaperEveryMs: ms(
        2000,
        'Time after a step down of the Opus encoders until the next one, so that its effect is seen',
      ),
      dearerAfterMs: ms(
        15_000,
        'Time without strain and without a change before a step up, which may strain the node again',
      ),
      trimEveryMs: ms(
        5000,
        'Interval at which freed memory is given back to the kernel while memory is short',
      ),
      shortAfterFaultMs: ms(
        10_000,
        'Time for which newcomers are refused after something had run out',
      ),
      scrapeEveryMs: ms(
        1000,
        'Interval in which requests for /metrics get the same figures, and those for /readyz the same answer of Redis',
      ),
    }),
  },
  { additionalProperties: false },
);

export type Timings = Static<typeof TimingsSchema>;

/** Some durations of some groups; the others keep their defaults. */
export type TimingOverrides = { [G in keyof Timings]?: Partial<Timings[G]> };

/**
 * Fills in the defaults.
 * @throws {Error} if an override is not known, or not a positive number
 */
export function timingsWith(overrides: TimingOverrides): Timings {
  const groups = Object.entries(TimingsSchema.properties);
  for (const [name, values] of Object.entries(overrides)) {
    const known = groups.find(([group]) => group === name)?.[1].properties ?? {};
    for (const key of Object.keys(values)) {
      if (!(key in known)) throw new Error(`There is no timing ${name}.${key}.`);
    }
  }
  const timings = Value.Default(TimingsSchema, structuredClone(overrides));
  const [fault] = Value.Errors(TimingsSchema, timings);
  if (fault)
    throw new Error(`Timing ${fault.instancePath.slice(1).replace('/', '.')} ${fault.message}.`);
  return Value.Parse(TimingsSchema, timings);
}

export const DEFAULT_TIMINGS: Timings = timingsWith({});

/** The environment variable in which a process of a test finds its overrides, as JSON. */
export const TIMINGS_VARIABLE = 'PARTYLINE_TIMINGS';

/**
 * Reads the timings of this process, which a gateway hands on to the processes that it starts.
 * @throws {Error} if the variable is set to something else than overrides
 */
export function readTimings(environment: Record<string, string | undefined>): Timings {
  const text = environment[TIMINGS_VARIABLE];
  return text ? timingsWith(JSON.parse(text) as TimingOverrides) : DEFAULT_TIMINGS;
}
