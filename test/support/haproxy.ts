import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestCertificates } from './certificates.ts';
import { eventually } from './gateway.ts';
import { replaceAll } from './replace-all.ts';

const SHIPPED = fileURLToPath(new URL('../../docker/haproxy.cfg', import.meta.url));

export type ProxyPorts = {
  /** For everybody. */
  clients: number;
  operators: number;
  /** Ports of the two gateways. */
  gateways: [number, number];
};

/**
 * HAProxy with `docker/haproxy.cfg`, in which only what belongs to the machine is another: ports, addresses, the file with the
 * certificate, and the number of connections, for which a test machine has no descriptors.
 */
export class TestHaproxy {
  readonly #child: ChildProcess;
  readonly #statsSocket: string;
  #output = '';

  private constructor(configFile: string, statsSocket: string) {
    this.#statsSocket = statsSocket;
    // As its image starts it: a master, which reads its files again by SIGHUP, and a worker.
    this.#child = spawn('haproxy', ['-W', '-db', '-f', configFile], { stdio: 'pipe' });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.#output += chunk.toString()));
    }
  }

  /** Resolves when it takes both gateways for ready. @throws {Error} if HAProxy has anything to say of its configuration */
  static async start(
    { folder, chainAndKeyFile }: TestCertificates,
    { clients, operators, gateways: [first, second] }: ProxyPorts,
  ): Promise<TestHaproxy> {
    const statsSocket = join(folder, 'stats.sock');
    const config = replaceAll(SHIPPED, await readFile(SHIPPED, 'utf8'), [
      ['maxconn 60000', `maxconn 2000\n    stats socket ${statsSocket} mode 600`],
      ['/usr/local/etc/haproxy/tls/partyline.pem', chainAndKeyFile],
      ['bind :443', `bind 127.0.0.1:${clients}`],
      ['bind :8443', `bind 127.0.0.1:${operators}`],
      ['172.28.0.11:3000', `127.0.0.1:${first}`],
      ['172.28.0.12:3000', `127.0.0.1:${second}`],
    ]);
    const configFile = join(folder, 'haproxy.cfg');
    await writeFile(configFile, config);
    execFileSync('haproxy', ['-c', '-dW', '-f', configFile], { stdio: 'pipe' });
    const proxy = new TestHaproxy(configFile, statsSocket);
    await eventually('both gateways are up', async () => {
      const states = await proxy.states();
      return states['gateway-1'] === 'UP' && states['gateway-2'] === 'UP';
    });
    return proxy;
  }

  /** State of each gateway as HAProxy sees it: `UP`, `DOWN` and so on; nothing before it runs. */
  async states(): Promise<Record<string, string>> {
    if (this.#child.exitCode !== null) throw new Error(`haproxy has ended: ${this.#output}`);
    const checked = (await this.#statsOf('gateways')).map((value) => [
      value('svname'),
      value('status'),
    ]);
    return Object.fromEntries(checked) as Record<string, string>;
  }

  /** Number of requests that each gateway has answered for a backend. */
  async requestsOf(backend: string): Promise<Record<string, number>> {
    const stats = await this.#statsOf(backend);
    return Object.fromEntries(stats.map((value) => [value('svname'), Number(value('stot'))]));
  }

  /** Functions that return the named figure of each server of a backend; none before HAProxy runs. */
  async #statsOf(backend: string): Promise<((name: string) => string)[]> {
    const [head = '', ...lines] = (await this.#ask('show stat')).split('\n');
    const names = head.replace('# ', '').split(',');
    const rows = lines.map((line) => {
      const values = line.split(',');
      return (name: string) => values[names.indexOf(name)] ?? '';
    });
    return rows.filter((value) => value('pxname') === backend);
  }

  /** Makes HAProxy read its files again. */
  reload(): void {
    this.#child.kill('SIGHUP');
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const exited = once(this.#child, 'exit');
    // The master ends its workers, and with them their connections.
    this.#child.kill('SIGTERM');
    await exited;
  }

  async #ask(command: string): Promise<string> {
    const socket = connect(this.#statsSocket);
    let text = '';
    socket.on('data', (chunk) => (text += chunk.toString()));
    socket.end(`${command}\n`);
    try {
      await once(socket, 'close');
    } catch {
      // It does not listen yet.
      return '';
    }
    return text;
  }
}
