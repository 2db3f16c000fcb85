import { reportHop } from './growth-hop.ts';
import { reportJoins } from './growth-join.ts';
import { reportProcesses } from './growth-processes.ts';
import { reportWords } from './growth-words.ts';
import { reportWorkers } from './growth-workers.ts';
import { Nodes } from './nodes.ts';
import { MAX_LATE_MS } from './row.ts';
import { mixed } from './scenario.ts';

const PAIR = mixed(1, 2, 1);

/**
 * Measures the growth of capacity with more media workers, processes and nodes, and the cost of the paths
 * between them.
 */
export async function reportGrowth(print: (text: string) => void, signal: AbortSignal) {
  await reportWorkers(print, signal);
  await reportProcesses(print, signal);
  await reportHop(print, signal);
  await using nodes = await Nodes.start(PAIR, 2);
  await reportJoins(print, nodes, signal);
  await reportWords(print, nodes, signal);
  print(FOOT);
}

const FOOT = `
Media workers get plain RTP and send to as many encrypted transports as browsers would have. A single media worker has a core of
its own; several share all cores with the load generator. Growth is linear while a packet costs the same and cores are left. CPU of
processes is of Node and the media workers, without Redis. Frames are counted in both directions. MIX_THREADS=0. Clients are
handed to the process of their room (a room that spans two is mixed in both, and each speaker piped: a frame then costs
about twice as much). The maximum number of rooms without loss is the highest load that passed; the lowest load that failed, in
two tries, is at most a tenth above it. The generator takes part of the cores. The hop's CPU is of both media workers, which share a core.
† The load generator was delayed by more than ${MAX_LATE_MS} ms by something else: do not rely on this row.
`;
