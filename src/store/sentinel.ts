import { createClient } from 'redis';
import type { HostAndPort, WatchedRedis } from '../../config/sentinel-url.ts';
import { endClient } from './client.ts';

/** State of a watched Redis, as a sentinel reports it. */
export type SentinelAnswer = HostAndPort & {
  /** Epoch, which grows with each failover: the highest one has the present primary. */
  epoch: number;
  /** Silence of the primary after which sentinels begin a failover, ms. */
  downAfterMs: number;
};

/** Settings for queries to a sentinel. */
export type Asking = Pick<WatchedRedis, 'name' | 'isTls'> & {
  /** Password of the sentinel itself; empty if it has none. */
  password: string;
  /** Time limit of an answer, ms. */
  withinMs: number;
};

/** A connection to one sentinel, opened at the first query, and again after a fault. */
export class Sentinel {
  /** Address of the sentinel, for logs. */
  readonly name: string;
  readonly #address: HostAndPort;
  readonly #asking: Asking;
  #client: ReturnType<typeof newSentinelClient> | undefined;

  constructor(address: HostAndPort, asking: Asking) {
    this.#address = address;
    this.#asking = asking;
    this.name = `${address.host}:${address.port}`;
  }

  /**
   * Asks for the primary.
   * @throws {Error} if the sentinel does not answer in time, does not know the name, or refuses the password
   */
  async ask(): Promise<SentinelAnswer> {
    const { withinMs } = this.#asking;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`no answer in ${withinMs} ms`)), withinMs);
    try {
      return await Promise.race([this.#ask(), late.promise]);
    } catch (fault) {
      this.close();
      throw fault;
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    if (this.#client) endClient(this.#client);
    this.#client = undefined;
  }

  async #ask(): Promise<SentinelAnswer> {
    const { name } = this.#asking;
    const client = (this.#client ??= newSentinelClient(this.#address, this.#asking));
    if (!client.isReady) await client.connect();
    // In this order: during a failover the second is newer than the first, never older.
    const [fields, address] = await Promise.all([
      client.sendCommand<string[]>(['SENTINEL', 'MASTER', name]),
      client.sendCommand<string[] | null>(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]),
    ]);
    const numberOf = (field: string) => Number(fields[fields.indexOf(field) + 1]);
    const [host, port] = address ?? [];
    if (host === undefined) throw new Error(`it has no primary named "${name}"`);
    return {
      host,
      port: Number(port),
      epoch: numberOf('config-epoch'),
      downAfterMs: numberOf('down-after-milliseconds'),
    };
  }
}

/** Creates a client that reads answers in lists, as sentinels give them before RESP 3. */
const newTemplate = () => createClient({ RESP: 2 });

/**
 * A client that is never connected, made at the first query to a sentinel. Others are its duplicates and have its class, which takes
 * 20 to 40 ms of CPU: a sentinel that is down is asked once a second, each time by a new client.
 */
let template: ReturnType<typeof newTemplate> | undefined;

/** A connection that does not reconnect: a fault ends it. */
function newSentinelClient(address: HostAndPort, { isTls: tls, password, withinMs }: Asking) {
  const socket = { ...address, connectTimeout: withinMs, reconnectStrategy: false } as const;
  template ??= newTemplate();
  const client = template.duplicate({
    socket: tls ? { ...socket, tls } : socket,
    ...(password !== '' && { password }),
    disableOfflineQueue: true,
  });
  // The same fault rejects the present query, or the next one.
  client.on('error', () => {});
  return client;
}
