import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { TestProxy } from './proxy.ts';
import { nextMessage, StoppableProcess } from './stoppable-process.ts';

/** A proxy in a process of its own. While it is stopped nothing passes, and kernels take what they can: a network that stalls. */
export class StoppableProxy extends StoppableProcess {
  readonly url: string;

  private constructor(url: string, child: ChildProcess) {
    super(child);
    this.url = url;
  }

  static async start(target: string): Promise<StoppableProxy> {
    const child = fork(fileURLToPath(import.meta.url), [target]);
    return new StoppableProxy((await nextMessage(child)) as string, child);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const proxy = await TestProxy.open(process.argv[2]!);
  process.on('disconnect', () => process.exit());
  process.send?.(proxy.url);
}
