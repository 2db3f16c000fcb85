import { parseArgs } from 'node:util';
import { FAULT_KINDS, type FaultKind } from './plan.ts';

export type SoakOptions = {
  /** How long peers come and go. */
  minutes: number;
  peers: number;
  nodes: number;
  /** The same seed gives the same plan. */
  seed: number;
  /** The kinds of faults that are injected. */
  faults: readonly FaultKind[];
  /** How long a lost client's place is kept (RESUME_MS). */
  resumeMs: number;
  /** How long all that was opened may take to go, once everybody has left. */
  settleMs: number;
};

/** Leases that nobody renews stay for 90 s; the last minute is closed by 130 s after its end. */
const SETTLE_MS = 150_000;
const RESUME_MS = 15_000;

export const USAGE = `Usage: npm run soak -- [options]
  --minutes T      how long peers come and go (30)
  --peers N        who come and go (200); about four fifths are connected at a time
  --nodes N        gateway processes on one Redis (2); the first is never killed, so that its memory can be watched
  --seed N         of the plan: who does what, and which fault comes when (1)
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
  throw new Error(`--faults knows ${FAULT_KINDS.join(', ')}; not ${text}`);
}
