import { KINDS } from './peer.ts';
import type { Direction, Round } from './round.ts';
import { flawOf } from './verdict.ts';

const NAMES = { websocket: 'WebSocket', webrtc: 'WebRTC' };
const SECONDS_OF_HOUR = 3600;

const nameOf = ({ from, to }: Direction) => `${NAMES[from]} to ${NAMES[to]}`;

/** Writes a round as a table for people. */
export function reportRound({ at, directions, joins, faults }: Round): string {
  const lines = [at.toISOString()];
  for (const kind of KINDS) {
    const ofKind = joins.filter((join) => join.kind === kind);
    if (ofKind.length === 0) continue;
    const times = ofKind.map(({ joinMs }) => `${joinMs.toFixed(0)} ms`).join(', ');
    const paths = [...new Set(ofKind.map(({ path }) => path))].join(', ');
    lines.push(`  ${NAMES[kind].padEnd(22)} joined in ${times} over ${paths}`);
  }
  for (const direction of directions) {
    const { isSilent, mouthToEarMs, lostShare, levelDb } = direction;
    const name = nameOf(direction).padEnd(22);
    const flaw = flawOf(direction);
    if (isSilent) {
      lines.push(`  ${name} ${flaw}`);
      continue;
    }
    const words = [
      `${(mouthToEarMs ?? NaN).toFixed(1)} ms`.padStart(9),
      `${(100 * lostShare).toFixed(0)} % lost`.padStart(10),
      `${(levelDb ?? NaN).toFixed(1)} dB`.padStart(9),
    ];
    lines.push(`  ${name} ${words.join(' ')}${flaw === undefined ? '' : `  ${flaw}`}`);
  }
  lines.push(...faults.map((fault) => `  ! ${fault}`));
  return `${lines.join('\n')}\n`;
}

/** Formats the cost of such rounds for the account. */
export function reportCost({ peerSeconds }: Round, everySeconds: number): string {
  const minutes = (peerSeconds / 60) * (SECONDS_OF_HOUR / everySeconds);
  return `Four peers, ${peerSeconds.toFixed(1)} peer-seconds a round: ${minutes.toFixed(0)} minutes an hour of the account, and 4 of its connections.\n`;
}
