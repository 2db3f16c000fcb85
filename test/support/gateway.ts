import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Fastify from 'fastify';
import { readSettings } from '../../config/settings.ts';
import { type TimingOverrides, timingsWith } from '../../config/timings.ts';
import { openApp } from '../../src/app.ts';
import type { App } from '../../src/app/opening.ts';
import { FILE_NUMBER } from './free-ports.ts';

/** A real gateway in this process: its own media worker (one, unless the environment says otherwise) and its own Redis, in a folder of its own. */
export type TestGateway = App & { apiKey: string };

/** A log that says nothing, for parts that are opened without a gateway. */
export const silentLog = Fastify().log;

/**
 * Test files run side by side in processes of their own, so the media workers of each need ports of their own: above those that the
 * kernel hands out, and apart from those that gateways take for other ends.
 */
const PORTS_OF_FILE = 700;
const FIRST_RTC_PORT = 61_000 + FILE_NUMBER * PORTS_OF_FILE;
let nextRtcPort = FIRST_RTC_PORT + (process.pid % 35) * 20;

/** A WebRTC port that, like the one after it, no process of this machine has. */
export function freeRtcPort(): number {
  const taken = openPorts();
  do {
    nextRtcPort += 2;
    if (nextRtcPort >= FIRST_RTC_PORT + PORTS_OF_FILE) nextRtcPort = FIRST_RTC_PORT;
  } while (taken.has(nextRtcPort) || taken.has(nextRtcPort + 1));
  return nextRtcPort;
}

/** The UDP and TCP ports that are bound on this machine. */
function openPorts(): Set<number> {
  const tables = ['udp', 'udp6', 'tcp', 'tcp6'].flatMap((name) => {
    const [, ...lines] = readFileSync(`/proc/net/${name}`, 'utf8').trimEnd().split('\n');
    return lines;
  });
  // `  0: 0100007F:F23A 00000000:0000 07 …`: the second word is the local address and port.
  return new Set(tables.map((line) => parseInt(line.trim().split(/[\s:]+/)[2] ?? '', 16)));
}

/** The machine that tests run on may be busy with other things, and they want to be let in all the same. */
export const NEVER_OVERLOADED = { OVERLOAD_CPU_PERCENT: '0', OVERLOAD_LOOP_DELAY_MS: '0' };

/** @param timings shorter durations than the product's, where a test would wait for them */
export async function openTestGateway(
  environment: Record<string, string> = {},
  timings: TimingOverrides = {},
): Promise<TestGateway> {
  const dataDir = await mkdtemp(join(tmpdir(), 'partyline-test-'));
  const app = await openApp(
    readSettings({
      PORT: '0',
      DATA_DIR: dataDir,
      MEDIA_WORKERS: '1',
      USAGE_WORKERS: '0',
      RTC_PORT: String(freeRtcPort()),
      RESUME_MS: '200',
      ...NEVER_OVERLOADED,
      LOG_LEVEL: 'silent',
      ...environment,
    }),
    // Metrics that a test reads are of that moment, and no end waits for a Redis that a test has
    // ended.
    timingsWith({
      ...timings,
      load: { scrapeEveryMs: 1, ...timings.load },
      usage: { lastWriteMs: 100, ...timings.usage },
    }),
  );
  if (!app.demo) throw new Error('the test gateway has no demo account');
  return {
    ...app,
    apiKey: app.demo.apiKey,
    close: async () => {
      await app.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** Interval at which a condition is read that costs nothing, ms. */
const ASK_EVERY_MS = 10;
/** Longest interval for a condition that must be asked for, ms: it grows with the time that has passed. */
const LONGEST_INTERVAL_MS = 100;

/**
 * Waits until `condition` holds, for things that happen a moment later; on a busy machine that may take seconds. A condition that takes time is
 * asked less often, so that the questions take little of what they wait for.
 */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 30_000,
): Promise<void> {
  const startMs = performance.now();
  for (;;) {
    const askedMs = performance.now();
    if (await condition()) return;
    const nowMs = performance.now();
    if (nowMs > startMs + timeoutMs) {
      throw new Error(`did not happen within ${timeoutMs} ms: ${what}`);
    }
    const longestMs = Math.min(LONGEST_INTERVAL_MS, (nowMs - startMs) / 20);
    const pauseMs = Math.max(ASK_EVERY_MS, Math.min(4 * (nowMs - askedMs), longestMs));
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
