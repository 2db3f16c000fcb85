import { setPriority } from 'node:os';
import type { WebSocket } from 'ws';
import { connectClient } from '../client.ts';
import { encodePackets } from '../packets.ts';
import { talk } from './talk.ts';

/**
 * Program with two peers that talk to each other: `listeners.ts URL KEY`. It answers any message of its parent with the longest
 * time, ms, in which one of the two peers received nothing since the previous answer. It runs at a higher priority than the
 * attackers, so that it does not measure its own waits for a processor.
 */

const [, , url = '', apiKey = ''] = process.argv;
try {
  setPriority(-10);
} catch {
  // Only root may do this. Otherwise the gaps include waits for a processor, as does the column
  // *quiet*.
}

const { packets } = await encodePackets();
let longestGapMs = 0;

async function enter(peer: string): Promise<WebSocket> {
  const address = new URL('/ws', url.replace('http', 'ws'));
  const query = { room: 'talk', peer, api_key: apiKey, audio: 'opus' };
  address.search = new URLSearchParams(query).toString();
  let lastMs: number | undefined;
  const noteGap = () => {
    const nowMs = performance.now();
    if (lastMs !== undefined) longestGapMs = Math.max(longestGapMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  const socket = await connectClient(address, noteGap);
  gaps.push(() => {
    if (lastMs !== undefined) longestGapMs = Math.max(longestGapMs, performance.now() - lastMs);
  });
  return socket;
}

/** Functions that count the gaps which have not ended yet. */
const gaps: (() => void)[] = [];
const sockets = [await enter('one'), await enter('two')];
talk(sockets, packets);

process.on('message', () => {
  for (const look of gaps) look();
  process.send?.(longestGapMs);
  longestGapMs = 0;
});
process.stdout.write('ready {}\n');
