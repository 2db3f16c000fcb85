import { reportHop } from './growth-hop.ts';
import { reportWorkers } from './growth-workers.ts';

/** How much more the gateway bears with more media workers, processes and nodes, and what the ways between them cost. */
export async function reportGrowth(say: (text: string) => void, signal: AbortSignal) {
  await reportWorkers(say, signal);
  await reportHop(say, signal);
}
