import { randomUUID } from 'node:crypto';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Timings } from '../../config/timings.ts';
import { giveToOwner, openDataDir } from '../store/data-dir.ts';
import type { MinuteCount } from './meter.ts';
import type { UsageStore } from './usage-store.ts';

/** Names of the files; another process may be writing one whose name is longer. */
const FILE = /^unwritten-usage-[0-9a-f-]{36}\.json$/;
/**
 * Age from which a count is not written any more, ms. Redis forgets the counts of a minute after 48 h: written later, this one would be
 * added again, or replace the record of the minute, and with it the counts of other processes.
 */
const TOO_OLD_MS = 47 * 3_600_000;

const countsValidator = Compile(
  Type.Array(
    Type.Object({
      writer: Type.String(),
      accountId: Type.Integer(),
      minute: Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}$' }),
      room: Type.String(),
      websocketMs: Type.Number({ minimum: 0 }),
      webrtcMs: Type.Number({ minimum: 0 }),
      peakPeers: Type.Integer({ minimum: 0 }),
    }),
  ),
);

/**
 * Writes the last counts of a process. Counts that Redis does not accept before the process ends are left to the next start, in a
 * file of the data folder. Counts that are written twice count once.
 */
export class LastUsage {
  readonly #store: Pick<UsageStore, 'write'>;
  readonly #dataDir: string;
  readonly #log: FastifyBaseLogger;
  readonly #timings: Timings['usage'];
  #hasLeft = false;

  constructor(
    store: Pick<UsageStore, 'write'>,
    dataDir: string,
    log: FastifyBaseLogger,
    timings: Timings['usage'],
  ) {
    this.#store = store;
    this.#dataDir = dataDir;
    this.#log = log;
    this.#timings = timings;
  }

  /**
   * Writes counts for up to `lastWriteMs`; the file is there from the first failure on, in case the process is killed.
   * @param isStoreWell false if the store has just failed to take other counts: the file is there at once
   */
  async write(counts: MinuteCount[], isStoreWell = true): Promise<void> {
    const endMs = performance.now() + this.#timings.lastWriteMs;
    const peerSeconds = secondsIn(counts);
    if (isStoreWell) {
      const fault = await this.#tryToWrite(counts);
      if (fault === undefined) return;
      this.#log.warn({ err: fault, peerSeconds }, 'last usage not written; retrying');
    }
    const file = await this.#leave(counts);
    if (isStoreWell) await delay(this.#timings.retryLastMs);
    while (performance.now() < endMs) {
      if ((await this.#tryToWrite(counts)) !== undefined) {
        await delay(this.#timings.retryLastMs);
        continue;
      }
      this.#log.info({ peerSeconds }, 'last usage written');
      if (file !== undefined) await rm(file, { force: true });
      return;
    }
    if (file === undefined) this.#log.error({ peerSeconds }, 'last usage lost');
    else this.#log.warn({ file, peerSeconds }, 'last usage left to the next start');
  }

  /** True if files remain after {@link writeLeft} because the store did not take their counts, so that it should be called again. */
  get hasLeft(): boolean {
    return this.#hasLeft;
  }

  /**
   * Writes the counts that earlier processes have left. A file whose counts could not be written stays, as does a file that cannot be
   * read, which the operator may inspect.
   * @param wallMs current time by the clock of Redis
   */
  async writeLeft(wallMs: number): Promise<void> {
    this.#hasLeft = false;
    for (const file of await this.#findFiles()) {
      try {
        await this.#writeFile(file, wallMs);
      } catch (fault) {
        // Another process of this data folder has written it meanwhile.
        if (isMissing(fault)) continue;
        this.#log.error({ err: fault, file }, 'usage of an earlier process not written');
      }
    }
  }

  async #writeFile(file: string, wallMs: number): Promise<void> {
    const counts: unknown = JSON.parse(await readFile(file, 'utf8'));
    if (!countsValidator.Check(counts)) throw new Error('not a list of counts');
    const { recent, old } = splitByAge(counts, wallMs);
    const fault = await this.#tryToWrite(recent);
    if (fault !== undefined) {
      this.#hasLeft = true;
      const left = { err: fault, file, peerSeconds: secondsIn(recent) };
      this.#log.warn(left, 'usage of an earlier process not written; retrying');
      return;
    }
    await rm(file, { force: true });
    this.#log.warn({ file, peerSeconds: secondsIn(recent) }, 'usage of an earlier process written');
    if (old.length === 0) return;
    this.#log.error({ file, peerSeconds: secondsIn(old) }, 'usage lost: older than 47 hours');
  }

  async #tryToWrite(counts: MinuteCount[]): Promise<unknown> {
    try {
      await this.#store.write(counts);
      return undefined;
    } catch (fault) {
      return fault;
    }
  }

  /** Leaves counts in a new file, whole or not at all. @returns undefined if it cannot be written, which is logged */
  async #leave(counts: MinuteCount[]): Promise<string | undefined> {
    const file = join(this.#dataDir, `unwritten-usage-${randomUUID()}.json`);
    const temporary = `${file}.tmp`;
    try {
      await openDataDir(this.#dataDir);
      await writeFile(temporary, JSON.stringify(counts), { mode: 0o600, flush: true });
      await giveToOwner(temporary);
      await rename(temporary, file);
      return file;
    } catch (fault) {
      this.#log.error({ err: fault, file }, 'file of last usage not written');
      await rm(temporary, { force: true }).catch(() => {
        // The folder itself cannot be used, which has been logged.
      });
      return undefined;
    }
  }

  async #findFiles(): Promise<string[]> {
    try {
      const names = await readdir(this.#dataDir);
      return names.filter((name) => FILE.test(name)).map((name) => join(this.#dataDir, name));
    } catch (fault) {
      // A gateway with an operator's Redis may have no data folder.
      if (!isMissing(fault))
        this.#log.error({ err: fault }, 'usage files of earlier processes not listed');
      return [];
    }
  }
}

/** Returns whether a fault says that a file or folder does not exist. */
const isMissing = (fault: unknown) =>
  fault instanceof Error && 'code' in fault && fault.code === 'ENOENT';

/** Splits counts into those that may still be written and those that are too old. @param wallMs current time by the clock of Redis */
export function splitByAge(counts: MinuteCount[], wallMs: number) {
  const isRecent = ({ minute }: MinuteCount) => wallMs - Date.parse(`${minute}Z`) < TOO_OLD_MS;
  const old = counts.filter((count) => !isRecent(count));
  return { recent: old.length > 0 ? counts.filter(isRecent) : counts, old };
}

/** Peer-seconds of counts. */
export const secondsIn = (counts: MinuteCount[]) =>
  Math.round(counts.reduce((sum, count) => sum + count.websocketMs + count.webrtcMs, 0)) / 1000;
