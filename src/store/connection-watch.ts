import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { ErrorReply } from 'redis';
import type { Timings } from '../../config/timings.ts';
import { type Client, endClient, newRedisClient, type ServerAddress } from './client.ts';
import { within } from './wait-for-redis.ts';

/** Number of looks in a row without an answer after which a connection is silent. */
const SILENT_LOOKS = 5;
/** First delay between attempts to be answered over a new connection, ms; doubles. */
const FIRST_RETRY_MS = 50;
/** Delay before a client whose connection was ended connects again: by then an attempt of it that waited for an answer has ended, ms. */
const AFTER_END_MS = 50;

/**
 * Finds connections of this process to one Redis that are dead although TCP has not noticed, and replaces them. After a network cut
 * TCP waits for its next retransmission, up to two minutes, and for 15 if Redis has another address meanwhile.
 *
 * A connection without answers may also lead to a Redis that hangs, which keeps what it was sent, or belong to a process that stood still.
 * Therefore a silent one is replaced only if a new connection is answered, and the silent one still is not. Redis ends it first, so that
 * nothing that was sent over it, and that the kernel may send again, runs after what is sent over its replacement.
 */
export class ConnectionWatch {
  readonly #address: ServerAddress;
  readonly #timings: Timings['redis'];
  readonly #log: FastifyBaseLogger;
  readonly #connections: WatchedConnection[] = [];
  readonly #timer: NodeJS.Timeout;
  readonly #closing = new AbortController();
  #isReplacing = false;
  #hasLoggedRefusal = false;

  constructor(address: ServerAddress, timings: Timings['redis'], log: FastifyBaseLogger) {
    this.#address = address;
    this.#timings = timings;
    this.#log = log;
    this.#timer = setInterval(() => this.#look(), timings.askEveryMs).unref();
  }

  /**
   * Watches the connection of a client from now on.
   * @param client client that is connected, and has a name that no other has
   */
  add(client: Client): WatchedConnection {
    const connection = new WatchedConnection(client);
    this.#connections.push(connection);
    return connection;
  }

  /** Leaves all connections as they are. */
  close(): void {
    clearInterval(this.#timer);
    this.#closing.abort();
  }

  #look(): void {
    for (const connection of this.#connections) connection.look();
    if (this.#isReplacing || this.#silent.length === 0) return;
    this.#isReplacing = true;
    this.#replaceSilent()
      .catch(() => {
        // The watch was closed.
      })
      .finally(() => (this.#isReplacing = false));
  }

  get #silent(): WatchedConnection[] {
    return this.#connections.filter(({ isSilent }) => isSilent);
  }

  /** Tries new connections, one at a time, until none that is watched is silent. */
  async #replaceSilent(): Promise<void> {
    const { longestReconnectMs } = this.#timings;
    const { signal } = this.#closing;
    for (let attempts = 0; this.#silent.length > 0; attempts += 1) {
      if (await this.#tryToReplace()) return;
      const delayMs = Math.min(FIRST_RETRY_MS * 2 ** attempts, longestReconnectMs);
      await wait(delayMs, undefined, { signal });
    }
  }

  /** Returns false if Redis does not answer a new connection either, or refuses to end others over it. */
  async #tryToReplace(): Promise<boolean> {
    const { signal } = this.#closing;
    const { commandTimeoutMs } = this.#timings;
    const inTime = {
      timings: { ...this.#timings, startWithinMs: commandTimeoutMs },
      abort: signal,
    };
    const client = newRedisClient(this.#address, this.#timings, {
      connectWithinMs: commandTimeoutMs,
      mayRetry: () => false,
    });
    // The same fault rejects connect().
    client.on('error', () => {});
    try {
      await within(client.connect(), inTime);
      // A Redis that hung until now answers all.
      await pass(commandTimeoutMs, signal);
      const dead = this.#silent;
      await within(endAtRedis(client, dead), inTime);
      await this.#reconnect(dead);
      this.#hasLoggedRefusal = false;
      return true;
    } catch (fault) {
      signal.throwIfAborted();
      if (fault instanceof ErrorReply) this.#logRefusal(fault);
      return false;
    } finally {
      endClient(client);
    }
  }

  async #reconnect(dead: WatchedConnection[]): Promise<void> {
    // The others have noticed that Redis has ended them, and connect again by themselves.
    const silent = dead.filter(({ isSilent }) => isSilent);
    for (const connection of silent) {
      this.#log.warn({ connection: connection.name }, 'redis connection dead; connecting again');
      connection.end();
    }
    await wait(AFTER_END_MS, undefined, { signal: this.#closing.signal });
    for (const connection of silent) connection.connect();
  }

  #logRefusal(fault: ErrorReply): void {
    if (!this.#hasLoggedRefusal) {
      this.#log.warn({ err: fault }, 'silent redis connections left to TCP: redis refused');
    }
    this.#hasLoggedRefusal = true;
  }
}

/** The connection of one client, or the one that takes its place. */
export class WatchedConnection {
  readonly #client: Client;
  #isShakingHands = false;
  #isAsked = false;
  #unansweredLooks = 0;

  constructor(client: Client) {
    this.#client = client;
    client.on('connect', () => {
      this.answered();
      this.#isShakingHands = true;
    });
    client.on('ready', () => {
      this.answered();
      this.#isShakingHands = false;
    });
    client.on('error', () => (this.#isShakingHands = false));
    client.on('end', () => (this.#isShakingHands = false));
  }

  /** Name of the connection at Redis. */
  get name(): string {
    return this.#client.options.name!;
  }

  get isSilent(): boolean {
    return this.#isConnected && this.#unansweredLooks > SILENT_LOOKS;
  }

  /** Takes note of a sign of life: an answer, or a message. */
  answered(): void {
    this.#unansweredLooks = 0;
  }

  /** Takes note of an answer, also one that is an error, once it comes. */
  async awaitAnswer(command: Promise<unknown>): Promise<void> {
    try {
      await command;
      this.answered();
    } catch (fault) {
      if (fault instanceof ErrorReply) this.answered();
    }
  }

  /** Counts a look, which a sign of life takes back, and asks for one. Looks are counted, not time: a standstill is one. */
  look(): void {
    this.#unansweredLooks = this.#isConnected ? this.#unansweredLooks + 1 : 0;
    if (this.#client.isReady && !this.#isAsked) void this.#ask();
  }

  /** Ends the connection, and fails all commands that wait for answers. */
  end(): void {
    this.#client.destroy();
  }

  /** Lets the client connect again. */
  connect(): void {
    this.#client.connect().catch(() => {
      // It was closed meanwhile.
    });
  }

  get #isConnected(): boolean {
    return this.#client.isReady || this.#isShakingHands;
  }

  async #ask(): Promise<void> {
    this.#isAsked = true;
    await this.awaitAnswer(this.#client.ping());
    this.#isAsked = false;
  }
}

/**
 * Ends connections at Redis, which then runs nothing more that comes over them. None may be left there: Redis has been restarted, or
 * another one has taken its place.
 * @throws {ErrorReply} if Redis refuses it
 */
async function endAtRedis(client: Client, connections: WatchedConnection[]): Promise<void> {
  if (connections.length === 0) return;
  const names = new Set(connections.map(({ name }) => name));
  const found = (await client.clientList()).filter(({ name }) => names.has(name));
  await Promise.all(found.map(({ id }) => client.clientKill({ filter: 'ID', id })));
}

/**
 * Resolves after some time, of which a standstill of this process counts half at most, and what came meanwhile has been read.
 * @throws {Error} if aborted
 */
async function pass(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms / 2, undefined, { signal });
  await wait(ms / 2, undefined, { signal });
  await turn(undefined, { signal });
}
