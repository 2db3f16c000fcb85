import { connect } from 'node:net';

/**
 * State of a Redis behind a socket: nothing listens; something that does not answer; or a server, with the first
 * line of its answer to PING, which may be an error (`-LOADING …`, `-MISCONF …`, `-NOAUTH …`).
 */
export type Probe =
  { state: 'absent' } | { state: 'silent'; reason: string } | { state: 'answers'; line: string };

/** Errors of connect(2) that prove that nothing listens; any other may come from a server that is busy or foreign. */
const ABSENT = new Set(['ENOENT', 'ECONNREFUSED']);

/**
 * Sends PING over a separate connection, without a client library, because libraries hide an error behind a failed connection.
 * @param timeoutMs time for the connection and the answer
 */
export function probeRedis(socketPath: string, timeoutMs: number): Promise<Probe> {
  return new Promise((resolve) => {
    const socket = connect({ path: socketPath });
    let text = '';
    const end = (probe: Probe) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(probe);
    };
    const timer = setTimeout(
      () => end({ state: 'silent', reason: `no answer in ${timeoutMs} ms` }),
      timeoutMs,
    );
    socket.on('error', (fault: NodeJS.ErrnoException) => {
      const isAbsent = ABSENT.has(fault.code ?? '');
      end(isAbsent ? { state: 'absent' } : { state: 'silent', reason: fault.message });
    });
    socket.on('close', () => end({ state: 'silent', reason: 'the connection was closed' }));
    socket.on('data', (chunk) => {
      text += chunk.toString();
      const [line, rest] = text.split('\r\n');
      if (line !== undefined && rest !== undefined) end({ state: 'answers', line });
    });
    socket.write('PING\r\n');
  });
}
