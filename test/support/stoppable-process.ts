import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Returns the next message of a child process. @throws {Error} if it exits instead */
export async function nextMessage(child: ChildProcess): Promise<unknown> {
  const waiting = new AbortController();
  const { signal } = waiting;
  const exited = once(child, 'exit', { signal }).then(([code, killedBy]) => {
    throw new Error(`it has exited with ${code ?? killedBy} and answers nothing`);
  });
  try {
    const [message] = (await Promise.race([once(child, 'message', { signal }), exited])) as [
      unknown,
    ];
    return message;
  } finally {
    waiting.abort();
  }
}

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
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }
}
