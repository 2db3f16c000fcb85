import { cpus } from 'node:os';
import { CORES } from '../child.ts';
import { CROWD_CLIENTS, GOALS, leastSent } from './attack-row.ts';
import { MAX_SECOND_SECONDS, type Row } from './measure-attack.ts';
import { MOMENT_GOALS } from './measure-moment.ts';
import { CONNECT_AGAIN_MS } from './tcp.ts';

/** The page of a whole run: what is measured and how, the goals, what was met, and the tables. */
export function pageOf(
  tables: string[],
  rows: Row[],
  seconds: number,
): { text: string; verdict: string } {
  const unmet = rows.filter(({ isMet }) => !isMet).length;
  const verdict = `${rows.length - unmet} of ${rows.length} rows meet their goals.`;
  const { one, crowd, heapMb, heapAgainMb, redisMb } = GOALS;
  const text = `# Hostile clients and large moments

\`npm run bench -- --only hostile\` writes this page. Two peers of one account talk all the time, in a process of their own at a higher
priority, while clients of another account attack the same gateway for ${seconds} s (\`--attack-seconds\`; 10 by default), or many of them do something friendly at once. The gateway
with its media worker (and its Redis, except for the large moments) is on one core, everybody else on another. Measured on ${cpus()[0]?.model.trim() ?? 'an unknown processor'}, ${CORES} cores, Node ${process.version}.

- *Longest gap*: the longest time for which one of the two heard nothing, until 2 s after the attackers have broken off. *Quiet*: the same in 2 s before. *Floor*: the same under the same
  attack, for at most 3 s, on a bare WebSocket server that only parses text and relays sound. Attacks that need the gateway's answers have none.
- *Loop p99*: how late the gateway's event loop was in the same time, and that of the bare server (*floor*): 99th percentile of the time that something due at a
  random moment has to wait, so that a loop that is blocked rarely and for long shows.
- *Heap after*: growth of heap and external memory after a garbage collection, when the gateway has no session of the attackers any more and keeps none of
  their places. *Again*: further growth by a second attack of at most ${MAX_SECOND_SECONDS} s.
- *Redis after*: growth of Redis's data by both attacks, their minutes written and the webhook's events waiting for an endpoint that refuses them. Keys
  of the attackers that never expire are named here, apart from minutes that a worker has yet to close, waiting events (until WEBHOOK_KEEP_HOURS), and sums.
- *Sent*: clients that the gateway accepted; connections that were opened (some are refused afterwards; \`fetch\` keeps its own, which are not counted); messages or requests that left the attackers,
  and their size (of requests by \`fetch\`, that of their bodies); size of HTTP answers. *Told*: close codes and error codes (\`closed\`: a TCP connection), and how often
  the attackers got each; closes of their own do not count (\`listener\`: a peer that only hears what they send).
- *All told after*: from the beginning until each peer of the crowd knew of all the others, and each browser was offered all their sound;
  where peers leave, until each has left and those that stay were told of all of them.
- *After connecting*: of that, the longest time from when a browser had connected, and all had begun to produce, until its last consumer was offered:
  what the gateway takes, without the handshakes, which one process makes for all browsers.

The time of an attack begins when each client is accepted or refused. A client that is closed connects again after ${CONNECT_AGAIN_MS} ms. A row only meets its goals if half of the clients were accepted and
sent ${leastSent(1)} messages, or ${leastSent(CROWD_CLIENTS)} from ${CROWD_CLIENTS} (or connected that often, where that is the attack), to the gateway and to the bare server.

Goals, beyond quiet and floor: a gap of at most ${one.gapMs} ms for one attacker and ${crowd.gapMs} ms for ${CROWD_CLIENTS}; event loop p99 at most ${one.loopMs} and ${crowd.loopMs} ms; ${heapMb} MB of
memory, ${heapAgainMb} MB more after the second attack (none but for what a garbage collection leaves to chance); ${redisMb} MB of Redis, and no key that never expires.
A floor counts up to its goal: beyond that, the attack blocks the bare server itself. Large moments: ${MOMENT_GOALS.gapMs} ms beyond quiet, and all told within ${MOMENT_GOALS.toldMs / 1000} s (a usage report takes as long as it takes). Simulated browsers
produce, and connect the transport by which they hear with real ICE and DTLS, so that each is offered, and resumes, a consumer for each of the others. Nothing is
sent from their microphones.

**${verdict}**

${tables.join('\n')}`;
  return { text, verdict };
}
