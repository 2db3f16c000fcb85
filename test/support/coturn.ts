import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestCertificates } from './certificates.ts';
import { eventually } from './gateway.ts';
import { replaceAll } from './replace-all.ts';

const SHIPPED = fileURLToPath(new URL('../../docker/turnserver.conf', import.meta.url));

/** Addresses and secret of a test's TURN server. */
export type CoturnOptions = { address: string; gateway: string; secret: string };

/** coturn with `docker/turnserver.conf`, in which only the addresses, the certificate and the secret are others. */
export class TestCoturn {
  readonly #child: ChildProcess;
  #output = '';

  private constructor(configFile: string, pidFile: string) {
    const words = ['-c', configFile, '--log-file=stdout', `--pidfile=${pidFile}`];
    this.#child = spawn('turnserver', words, { stdio: 'pipe' });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.#output += chunk.toString()));
    }
  }

  /** Resolves when it listens for TLS at port 443. @throws {Error} if it has something to say of its settings */
  static async start(
    { folder, certFile, keyFile }: TestCertificates,
    { address, gateway, secret }: CoturnOptions,
  ): Promise<TestCoturn> {
    const config = replaceAll(SHIPPED, await readFile(SHIPPED, 'utf8'), [
      ['203.0.113.9', address],
      ['203.0.113.7', gateway],
      ['/etc/coturn/fullchain.pem', certFile],
      ['/etc/coturn/privkey.pem', keyFile],
      ['change-this-secret', secret],
    ]);
    const configFile = join(folder, 'turnserver.conf');
    await writeFile(configFile, config);
    const coturn = new TestCoturn(configFile, join(folder, 'turnserver.pid'));
    await eventually('coturn listens', () => isListening(address, 443));
    if (/bad configuration|unrecognized|unknown option/i.test(coturn.#output)) {
      await coturn.close();
      throw new Error(`coturn says: ${coturn.#output}`);
    }
    return coturn;
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }
}

function isListening(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const end = (isThere: boolean) => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}
