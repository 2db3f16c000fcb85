/**
 * Runs a command of this folder until it is done or interrupted. Invalid options end it with code 2 and the
 * usage, a signal with 130. The same signal again ends this process at once, and the kernel then ends its
 * child processes.
 */
export async function runCommand<Options>(
  usage: string,
  readOptions: (args: string[]) => Options,
  run: (options: Options, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  let options: Options;
  try {
    options = readOptions(process.argv.slice(2));
  } catch (fault) {
    process.stderr.write(`${fault instanceof Error ? fault.message : String(fault)}\n\n${usage}`);
    process.exitCode = 2;
    return;
  }
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupted.abort());
  }
  try {
    await run(options, interrupted.signal);
  } catch (fault) {
    if (!interrupted.signal.aborted) throw fault;
    process.stderr.write('\nInterrupted; everything that was started has been stopped.\n');
    process.exitCode = 130;
  }
}
