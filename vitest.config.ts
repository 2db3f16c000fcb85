import { availableParallelism } from 'node:os';
import { delimiter, join } from 'node:path';
import { defineConfig } from 'vitest/config';

/** System tests that start real processes, listen to no sound, and wait most of the time: they run side by side. */
const WAITING = [
  'accounts',
  'backup-script',
  'bad-input',
  'bounded-exit',
  'ccu-leases',
  'cluster',
  'crowd',
  'decoder-loading',
  'demo-account',
  'format-answers',
  'frame-path',
  'hostile-attacker',
  'invites',
  'ipv6',
  'leaving',
  'localhost',
  'many-accounts',
  'media-worker-starts',
  'me',
  'metrics',
  'muted',
  'node-liveness',
  'node-pipes',
  'opaque',
  'operator',
  'pipes',
  'process',
  'readme',
  'relay-links',
  'redis',
  'redis-clock',
  'redis-end',
  'redis-memory',
  'resume-elsewhere',
  'resume-limits',
  'resume-settings',
  'room-spread',
  'room-states',
  'rooms',
  'rtc-ports',
  'rtc-tcp',
  'rtp-rate',
  'set-up',
  'state-format',
  'stopped-log-reader',
  'strangers',
  'transcript',
  'usage',
  'usage-bounds',
  'usage-clocks',
  'usage-of-nodes',
  'usage-refused',
  'usage-reports',
  'volume',
  'ways',
  'webhook-delivery',
  'webhooks',
  'webhooks-of-rooms',
  'webhooks-refused',
  'webhooks-that-hang',
  'webrtc-signaling',
  'whip',
  'whip-lives',
  'wrong-clocks',
].map((name) => `test/integration/${name}.test.ts`);

/** Those that replace modules before they are loaded (`vi.mock`): each has a process of its own, the others share theirs. */
const WAITING_APART = ['test/integration/room-ports.test.ts'];

/** System tests that send and hear sound, and measure none of it so finely that another beside them would matter: two at a time. */
const HEARING = [
  'audio',
  'budgets',
  'bursts',
  'descriptors',
  'echo',
  'faults',
  'hostile-streams',
  'leaks',
  'resume',
].map((name) => `test/integration/${name}.test.ts`);

/** Tests that measure how much mixing this machine can do in time, and need its cores for themselves. */
const MIXING = ['test/integration/mix-host.test.ts'];

/** Browser tests of what pages show, and of whether anything is heard: two at a time. */
const PAGES = ['admin', 'client', 'page', 'page-entrance', 'websocket-audio'].map(
  (name) => `test/e2e/${name}.test.ts`,
);

/** Tests of pure code that take long: rooms in virtual time, what is told of hundreds of made-up streams, and what thousands of rooms or requests do. */
const SIMULATIONS = [
  'account-sender',
  'active-speakers.speech',
  'bursts-heard',
  'client/worklet/playout',
  'decoder-thread',
  'detector.unknown-formats',
  'double-talk',
  'dtx',
  'foreign-shapes',
  'format-guard',
  'formats',
  'friendly-senders',
  'glitches',
  'ingest',
  'input',
  'input.opus-of-clients',
  'input.rate-changes',
  'latency',
  'listener-leads',
  'meter',
  'mixing/mix',
  'network',
  'pacer',
  'parser-properties',
  'room-mixer.joined-mix',
  'room-mixer.late-thread',
  'room-mixer.stopped-speaker',
  'sound-budget',
  'spectral-distance',
  'spoken-words',
  'switching',
  'time-stretch',
  'unvoiced-copies',
  'vorbis',
  'wav',
].map((name) => `test/unit/**/${name}.test.ts`);

/** Tests that replace modules before they are loaded (`vi.mock`): each has a worker of its own, the others share theirs. */
const MOCKING = [
  'packages/client/invited-guest',
  'packages/client/load-audio',
  'packages/client/muting',
  'packages/client/session',
  'packages/client/session.any-order',
  'packages/client/session.transports',
  'packages/client/webrtc/webrtc-audio',
  'web/visit',
].map((name) => `test/unit/${name}.test.ts`);

/** The longest of these, which run with the long tests. */
const LONG_SIMULATIONS = [
  'arrivals.early',
  'audio/entries',
  'audio/lossy-speech',
  'audio/turns',
  'decoded-formats',
  'detector',
  'input.changes',
  'mixing/playout',
  'spaced-words',
].map((name) => `test/unit/**/${name}.test.ts`);

/** Long tests that hear sound, or open browsers, and measure neither so finely that another beside them would matter. */
const LONG_SOUND = [
  'browser-recovery',
  'browser-resume',
  'bursty-programs',
  'canary',
  'desktop',
  'examples',
  'lan',
  'media-workers',
  'moving',
  'spread-room',
  'stalls',
].map((name) => `test/long/${name}.test.ts`);

/** Long tests that start real processes, listen to no sound, and wait most of the time. */
const LONG_WAITING = [
  'data-folder',
  'failover-refused',
  'first-process',
  'processes',
  'redis-silence',
  'redis-start',
  'room-homes',
  'running-out',
  'signals',
].map((name) => `test/long/${name}.test.ts`);

/** Long tests of pages that are hidden and wait for most of the time. */
const LONG_HIDDEN = ['test/long/hidden-pages.test.ts'];

/** Servers of the versions that compose.yaml names, which come before this machine's own. */
const SHIPPED_SERVERS = join(import.meta.dirname, 'build/deploy/servers/scripts');

/** On a busy machine the default of a second is too short for `expect.poll`. Only a test that fails waits as long. */
const polling = { poll: { timeout: 30_000 } } as const;

/** For `npm run coverage`: Node loads the sources itself, as it does in the processes that tests start, so that offsets are the same. */
const measured = process.env['NODE_V8_COVERAGE']
  ? { setupFiles: ['test/support/take-coverage.ts'], experimental: { viteModuleRunner: false } }
  : {};

/** Pure code uses a core whole; by default vitest leaves one core to itself. The machine may be busy with other things. */
const pure = {
  ...measured,
  maxWorkers: availableParallelism(),
  testTimeout: 60_000,
  // Polling costs nothing here; the default interval of 50 ms would be most of the time of some
  // tests.
  expect: { poll: { ...polling.poll, interval: 5 } },
} as const;

const system = {
  ...measured,
  pool: 'forks',
  // Three times what tests take on a slow machine: only a test that fails waits for it.
  testTimeout: 90_000,
  hookTimeout: 90_000,
  expect: polling,
  // The processes that tests start load their modules three times as fast.
  env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'build/compile-cache') },
} as const;

const long = { ...system, testTimeout: 180_000, hookTimeout: 180_000 } as const;

/**
 * Long tests that run two at a time. vitest starts them in the order of their projects' names: hidden pages, which take longest, first. None
 * makes network namespaces (`lan` takes the first address of the machine), and none promises durations.
 */
const beside = { ...long, sequence: { groupOrder: 7 }, maxWorkers: 2 } as const;

/**
 * One group after the other: pure code and simulations in parallel, then what waits, side by side, then what measures sound in real time,
 * two files at a time, what measures mixing, one at a time, and what merely hears sound, two at a time. `scripts/test.mjs` runs the parts
 * and keeps their limits.
 */
export default defineConfig({
  test: {
    projects: [
      {
        resolve: { tsconfigPaths: true },
        test: {
          ...pure,
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          exclude: [...MOCKING, ...SIMULATIONS, ...LONG_SIMULATIONS],
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        resolve: { tsconfigPaths: true },
        test: {
          ...pure,
          name: 'mocking',
          include: MOCKING,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...pure,
          name: 'simulation',
          include: SIMULATIONS,
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...system,
          name: 'waiting',
          include: WAITING,
          isolate: false,
          sequence: { groupOrder: 1 },
          maxWorkers: 4,
        },
      },
      {
        test: {
          ...system,
          name: 'waiting-apart',
          include: WAITING_APART,
          sequence: { groupOrder: 1 },
          maxWorkers: 4,
        },
      },
      {
        test: {
          ...system,
          name: 'listening',
          include: ['test/integration/**/*.test.ts'],
          exclude: [...WAITING, ...WAITING_APART, ...MIXING, ...HEARING],
          sequence: { groupOrder: 2 },
          maxWorkers: 2,
        },
      },
      {
        test: {
          ...system,
          name: 'mixing',
          include: MIXING,
          sequence: { groupOrder: 3 },
          fileParallelism: false,
        },
      },
      {
        test: {
          ...system,
          name: 'hearing',
          include: HEARING,
          sequence: { groupOrder: 4 },
          maxWorkers: 2,
        },
      },
      {
        test: {
          ...system,
          name: 'pages',
          include: PAGES,
          sequence: { groupOrder: 5 },
          maxWorkers: 2,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          ...system,
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          exclude: PAGES,
          sequence: { groupOrder: 6 },
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      { test: { ...beside, name: 'long-hidden', include: LONG_HIDDEN } },
      { test: { ...beside, name: 'long-sound', include: LONG_SOUND } },
      { test: { ...beside, name: 'long-waiting', include: LONG_WAITING } },
      {
        test: {
          ...long,
          name: 'long',
          include: ['test/long/**/*.test.ts'],
          exclude: [...LONG_HIDDEN, ...LONG_SOUND, ...LONG_WAITING],
          sequence: { groupOrder: 8 },
          fileParallelism: false,
        },
      },
      {
        test: {
          ...pure,
          name: 'long-simulation',
          include: LONG_SIMULATIONS,
          sequence: { groupOrder: 9 },
        },
      },
      {
        test: {
          ...system,
          name: 'deploy',
          include: ['test/deploy/**/*.test.ts'],
          env: { ...system.env, PATH: [SHIPPED_SERVERS, process.env['PATH']].join(delimiter) },
          sequence: { groupOrder: 10 },
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
