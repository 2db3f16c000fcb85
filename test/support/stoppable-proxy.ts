import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { TestProxy } from './proxy.ts';

/** A proxy in a process of its own. While it is stopped nothing passes, and kernels take what they can: a network that stalls. */
export class StoppableProxy {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  static async start(target: string): Promise<StoppableProxy> {
    const child = fork(fileURLToPath(import.meta.url), [target]);
    const [url] = (await once(child, 'message')) as [string];
    return new StoppableProxy(url, child);
  }

  stop(): void {
    this.#child.kill('SIGSTOP');
  }

  goOn(): void {
    this.#child.kill('SIGCONT');
  }

  async close(): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const proxy = await TestProxy.open(process.argv[2]!);
  process.on('disconnect', () => process.exit());
  process.send?.(proxy.url);
}
