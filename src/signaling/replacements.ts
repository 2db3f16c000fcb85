import { KEY_PREFIX, type Redis } from '../store/redis.ts';
import type { Sessions } from './sessions.ts';

const CHANNEL = `${KEY_PREFIX}replacements`;

/** Who has connected, as all nodes are told. */
type Arrival = { accountId: number; peer: string; sessionId: string };

/** Tells all nodes that a peer has connected: its session on another, if there is one, ends. */
export async function announceArrival(redis: Redis, arrival: Arrival): Promise<void> {
  await redis.run((client) => client.publish(CHANNEL, JSON.stringify(arrival)));
}

/** Ends sessions of this node whose peers have connected to another. */
export async function watchArrivals(redis: Redis, sessions: Sessions): Promise<void> {
  const replace = (message: string) => {
    const { accountId, peer, sessionId } = JSON.parse(message) as Arrival;
    sessions.replace(accountId, peer, sessionId);
  };
  // What is missed while Redis is away is a peer that is on two nodes until one of its connections ends.
  await redis.subscribe(CHANNEL, { onMessage: replace, onGap: () => {} });
}
