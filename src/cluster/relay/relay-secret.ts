import { hkdfSync } from 'node:crypto';

/** Negotiated with ALPN: nodes that speak another version refuse each other. */
export const RELAY_PROTOCOL = 'partyline-relay/1';

/** Nothing below TLS 1.3, where a pre-shared key also gives forward secrecy. */
export const RELAY_TLS_VERSION = 'TLSv1.3';

const KEY_BYTES = 32;

/** Pre-shared key of the connections between nodes, derived from the key of the cluster. */
export const relayKeyOf = (clusterKey: string): Buffer =>
  Buffer.from(hkdfSync('sha256', clusterKey, '', 'partyline relay', KEY_BYTES));

/** PSK identity of a connection from one node to another: a connection that is redirected to a third node is refused there. */
export const relayIdentityOf = (from: string, to: string): string => `${from} ${to}`;
