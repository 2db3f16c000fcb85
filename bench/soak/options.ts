import { parseArgs } from 'node:util';
import type { Claim } from './claim.ts';
import { FAULT_KINDS, type FaultKind } from './plan.ts';

export type SoakOptions = {
  /** Time for which peers come and go. */
  minutes: number;
  peers: number;
  nodes: number;
  /** Seed of the plan: two runs with one seed have one plan. */
  seed: number;
  /** The kinds of faults that are injected. */
  faults: readonly FaultKind[];
  /** Time for which the place of a lost client is kept (RESUME_MS). */
  resumeMs: number;
  /** Time after the last client has left within which everything that was opened must be closed, ms. */
  settleMs: number;
  /** Returns whether the end waits for a claim that does not hold yet. */
  isAwaited: (claim: Claim) => boolean;
};

/**
 * Time after which everything must be closed, ms. The last minute ends up to 60 s after the last client has
 * left, and is closed 10 to 20 s after its end; keys of leases that are not renewed expire after 90 s.
 */
const SETTLE_MS = 150_000;
const RESUME_MS = 15_000;

export const USAGE = `Usage: npm run soak -- [options]
  --minutes T      time for which peers come and go (30)
  --peers N        number of peers (200); about four fifths are connected at a time
  --nodes N        gateway processes on one Redis (2); the first is never killed, so that its memory can be watched
  --seed N         seed of the plan of peers and faults (1); the same seed gives the same plan
  --faults LIST    by comma, "none" for none (all):
                   ${FAULT_KINDS.join('\n                   ')}
`;

/** @throws {Error} that says which option is wrong */
export function readOptions(args: string[]): SoakOptions {
  const { values } = parseArgs({
    args,
    options: {
      minutes: { type: 'string', default: '30' },
      peers: { type: 'string', default: '200' },
      nodes: { type: 'string', default: '2' },
      seed: { type: 'string', default: '1' },
      faults: { type: 'string', default: FAULT_KINDS.join(',') },
    },
  });
  return {
    minutes: number('minutes', values.minutes, 0.5),
    peers: number('peers', values.peers, 1),
    nodes: number('nodes', values.nodes, 1),
    seed: number('seed', values.seed, 0),
    faults: values.faults === 'none' ? [] : values.faults.split(',').map(faultKind),
    resumeMs: RESUME_MS,
    settleMs: SETTLE_MS,
    isAwaited: () => true,
  };
}

function number(name: string, text: string, least: number): number {
  const value = Number(text);
  if (text.trim() !== '' && value >= least) return value;
  throw new Error(`--${name} is a number of at least ${least}`);
}

function faultKind(text: string): FaultKind {
  const kind = FAULT_KINDS.find((name) => name === text);
  if (kind) return kind;
  throw new Error(`--faults: unknown fault "${text}"; known are ${FAULT_KINDS.join(', ')}`);
}
