import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** A child process that can be stopped as an operating system stops one, and goes on where it was. */
export class StoppableProcess {
  protected readonly child: ChildProcess;

  protected constructor(child: ChildProcess) {
    this.child = child;
  }

  stop(): void {
    this.child.kill('SIGSTOP');
  }

  goOn(): void {
    this.child.kill('SIGCONT');
  }

  async close(): Promise<void> {
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }
}
